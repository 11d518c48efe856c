"""What was written, one line a table: by sealing a run, or by exporting it."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from probe.export import ExportedTable
from probe.seal import SealReport
from probe.text.printable import printable
from probe.units import MISSING, format_bytes, format_exact, format_ratio


def seal_report(report: SealReport, *, name: str) -> RenderableType:
    """Rows and sizes of each table that was sealed, and the files that were put aside."""
    shown = printable(name)
    if not report.tables:
        return Group(Text(f"{shown} was sealed already; there was nothing to do."), *_kept(report))
    table = _grid("table", "rows", "JSONL", "Parquet", "ratio")
    for item in report.tables:
        table.add_row(
            item.table.name,
            format_exact(item.rows),
            format_bytes(item.jsonl_bytes),
            format_bytes(item.parquet_bytes),
            _shrunk(item.jsonl_bytes, item.parquet_bytes),
        )
    rows = sum(item.rows for item in report.tables)
    jsonl_bytes = sum(item.jsonl_bytes for item in report.tables)
    parquet_bytes = sum(item.parquet_bytes for item in report.tables)
    table.add_row(
        "all",
        format_exact(rows),
        format_bytes(jsonl_bytes),
        format_bytes(parquet_bytes),
        _shrunk(jsonl_bytes, parquet_bytes),
        style="bold",
    )
    return Group(table, Text(""), Text(f"{shown} is sealed."), *_kept(report))


def export_report(tables: Sequence[ExportedTable]) -> RenderableType:
    """Rows, sizes and places of the files that were written."""
    if not tables:
        return Text("No table of the run has rows; nothing was written.")
    table = _grid("table", "rows", "size")
    table.add_column("  file", overflow="fold")
    for item in tables:
        table.add_row(
            item.table.name,
            format_exact(item.rows),
            format_bytes(item.size_bytes),
            Text(f"  {printable(str(item.path))}"),
        )
    return table


def _grid(first: str, *figures: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for heading in figures:
        table.add_column(heading, no_wrap=True, justify="right")
    return table


def _shrunk(before_bytes: int, after_bytes: int) -> str:
    return format_ratio(before_bytes / after_bytes) if before_bytes else MISSING


def _kept(report: SealReport) -> list[Text]:
    """A line for each file with damaged lines that was put aside."""
    return [
        Text(f"{printable(file)} was kept: it holds lines that are no rows.", style="yellow")
        for file in report.kept
    ]
