"""What was written: by sealing a run, by exporting it, or by merging its traces."""

from collections.abc import Sequence

from rich.text import Text

from probe.export import ExportedTable
from probe.merge import Merged
from probe.seal import SealReport
from probe.text.aligned import align, with_heading
from probe.text.printable import printable
from probe.units import MISSING, format_bytes, format_exact, format_ratio


def seal_report(report: SealReport, *, name: str) -> list[Text]:
    """Rows and sizes of each table that was sealed, and the files that were put aside."""
    shown = printable(name)
    if not report.tables:
        return [Text(f"{shown} was sealed already; there was nothing to do."), *_kept(report)]
    heading = ("table", "rows", "JSONL", "Parquet", "ratio")
    rows = [
        _sizes(item.table.name, item.rows, item.jsonl_bytes, item.parquet_bytes)
        for item in report.tables
    ]
    total = _sizes(
        "all",
        sum(item.rows for item in report.tables),
        sum(item.jsonl_bytes for item in report.tables),
        sum(item.parquet_bytes for item in report.tables),
    )
    lines = with_heading(align([heading, *rows, total], right=(1, 2, 3, 4)))
    return [*lines, Text(), Text(f"{shown} is sealed."), *_kept(report)]


def export_report(tables: Sequence[ExportedTable]) -> list[Text]:
    """Rows, sizes and places of the files that were written."""
    if not tables:
        return [Text("No table of the run has rows; nothing was written.")]
    rows = [
        (
            item.table.name,
            format_exact(item.rows),
            format_bytes(item.size_bytes),
            printable(str(item.path)),
        )
        for item in tables
    ]
    return with_heading(align([("table", "rows", "size", "file"), *rows], right=(1, 2)))


def merge_report(merged: Merged) -> list[Text]:
    """What the merged trace holds and where it is."""
    ranks = len(merged.ranks)
    held = (
        f"{format_exact(merged.events)} events of {ranks:,} rank{'s' if ranks != 1 else ''}, "
        f"{merged.windows:,} profiled window{'s' if merged.windows != 1 else ''}"
    )
    size = format_bytes(merged.size_bytes)
    return [Text(f"{printable(str(merged.path))}: {held}, {size}.")]


def _sizes(name: str, rows: int, jsonl_bytes: int, parquet_bytes: int) -> tuple[str, ...]:
    ratio = _shrunk(jsonl_bytes, parquet_bytes)
    return (name, format_exact(rows), format_bytes(jsonl_bytes), format_bytes(parquet_bytes), ratio)


def _shrunk(before_bytes: int, after_bytes: int) -> str:
    return format_ratio(before_bytes / after_bytes) if before_bytes else MISSING


def _kept(report: SealReport) -> list[Text]:
    """A line for each file with damaged lines that was put aside."""
    return [
        Text(f"{printable(file)} was kept: it holds lines that are no rows.", style="yellow")
        for file in report.kept
    ]
