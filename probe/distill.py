"""Writing the distilled form of a trace beside where the profiler's JSON lies or would lie."""

from pathlib import Path

import pyarrow.parquet as pq

from probe.read.trace import Trace
from probe.read.trace_table import to_table
from probe.schema.layout import TEMPORARY_SUFFIX, trace_parquet_name

ROWS_PER_GROUP = 1 << 18


def write_distilled(trace: Trace, folder: Path, step: int) -> Path:
    """Write `trace_<step>.parquet` as a whole or not at all."""
    path = folder / trace_parquet_name(step)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        pq.write_table(
            to_table(trace),
            temporary,
            compression="zstd",
            row_group_size=ROWS_PER_GROUP,
            write_page_checksum=True,
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
