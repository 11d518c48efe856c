"""What one rank wrote of one table and nobody has sealed: JSONL up to the last newline."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from probe.read.columns import RowReader, arrow_schema
from probe.read.inside import RefusedFileError, open_inside
from probe.read.lines import OverlongLine, complete_lines
from probe.read.problem import Problem
from probe.read.words import held_bytes
from probe.schema.layout import rank_dir
from probe.schema.tables import Table
from probe.schema.vocabulary import Severity

MEMORY_LIMIT_BYTES = 512 << 20
"""Most that one load may hold; a selection of ranks or columns makes any run fit."""
TOO_LARGE = "holds more than the memory limit"
"""How the problem of a load that was cut short begins."""


@dataclass(frozen=True, kw_only=True)
class RankLines:
    """Rows in the order in which they were written, and how far into the file they reach."""

    rows: pa.Table
    problems: tuple[Problem, ...]
    held_bytes: int
    """What the rows take of the memory limit."""
    end_offset: int
    """End of the last whole line that was read."""
    next_line: int
    """Number of the line that begins there."""


def load_rank_lines(
    root: Path,
    table: Table,
    rank: int,
    *,
    columns: Sequence[str],
    offset: int = 0,
    first_line: int = 1,
    limit_bytes: int = MEMORY_LIMIT_BYTES,
) -> RankLines:
    """What one rank wrote of a table beyond `offset`; raises FileNotFoundError if nothing."""
    file_name = f"{rank_dir(rank)}/{table.file_name}"
    reader = RowReader(table=table, rank=rank, file=file_name, columns=columns)
    batches: list[pa.RecordBatch] = []
    problems: list[Problem] = []
    held = 0
    end_offset = offset
    next_line = first_line
    try:
        with open_inside(root, rank_dir(rank), table.file_name) as file:
            for part in complete_lines(file, offset=offset, first_line=first_line):
                if isinstance(part, OverlongLine):
                    end_offset, next_line = part.end_offset, part.next_line
                    reader.report(
                        line=part.line,
                        what=f"is a line of {part.length_bytes} bytes; no row is that long",
                        hint="The line is left out; the file was damaged or is not ours.",
                    )
                    continue
                batch = reader.read(part.content, part.first_line)
                batch_bytes = held_bytes(batch)
                if held + batch_bytes > limit_bytes:
                    problems.append(too_large(file_name, limit_bytes))
                    break
                held += batch_bytes
                end_offset, next_line = part.end_offset, part.next_line
                batches.append(batch)
            else:
                problems += _torn_tail(file_name, file.seek(0, 2) - end_offset)
    except FileNotFoundError:
        raise
    except RefusedFileError as refused:
        problems.append(refused.problem)
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        hint = "Check the permissions and the health of the disk."
        problems.append(Problem(severity=Severity.ERROR, file=file_name, what=what, hint=hint))
    schema = pa.schema([arrow_schema(table).field(name) for name in columns])
    return RankLines(
        rows=pa.Table.from_batches(batches, schema=schema),
        problems=(*reader.all_problems(), *problems),
        held_bytes=held,
        end_offset=end_offset,
        next_line=next_line,
    )


def too_large(file: str, limit_bytes: int) -> Problem:
    """The problem of a table that does not fit the memory it may take."""
    return Problem(
        severity=Severity.ERROR,
        file=file,
        what=f"{TOO_LARGE} of {limit_bytes >> 20} MiB",
        hint="Choose fewer columns or ranks.",
    )


def _torn_tail(file: str, left_bytes: int) -> list[Problem]:
    if left_bytes <= 0:
        return []
    return [
        Problem(
            severity=Severity.WARNING,
            file=file,
            what=f"ends within a row ({left_bytes} bytes after the last newline)",
            hint="The rank was killed or is writing at this moment; every whole row is read.",
        )
    ]
