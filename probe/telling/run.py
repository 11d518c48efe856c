"""Opening a run for whoever needs its tables, and the numbers that a run is told by."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from probe.analyse.findings.catalogue import find_all
from probe.analyse.findings.finding import Finding
from probe.analyse.run_facts import COLUMNS, RunFacts, run_facts
from probe.analyse.steps.headline import (
    COMM_COLUMNS,
    EVENT_COLUMNS,
    MEMORY_COLUMNS,
    STEP_COLUMNS,
    Headline,
    summarise_run,
)
from probe.errors import FormatVersionError
from probe.read.problem import Problem
from probe.read.run import Run, load_run
from probe.remark import remark_of
from probe.schema.layout import FORMAT_MAJOR
from probe.schema.tables import COMM, EVENTS, MEMORY, STEPS, TABLES, Table


def open_readable(path: Path) -> Run:
    """The run with the tags and notes that hold now.

    It is refused in one sentence if its format is of another major version.
    """
    run = load_run(path)
    if not run.readable:
        raise FormatVersionError(
            f"{run.path} was written in format {run.manifest.format_version[:40]!r}, and this "
            f"version reads {FORMAT_MAJOR}.x; open it with the version of ZeroProbe that recorded "
            "it, or upgrade."
        )
    remark = remark_of(run.path, run.manifest)
    manifest = msgspec.structs.replace(run.manifest, tags=remark.tags, notes=remark.notes)
    return replace(run, manifest=manifest)


@dataclass(frozen=True, kw_only=True)
class Told:
    """A run in a few numbers, and all that was wrong while they were read."""

    headline: Headline
    facts: RunFacts
    findings: tuple[Finding, ...]
    """What stands out, the largest expected gain first."""
    table_rows: dict[str, int]
    tables: Mapping[Table, Any]
    """As they were read, with the columns that were needed."""
    problems: tuple[Problem, ...]


def tell(
    run: Run,
    *,
    on_table: Callable[[Table], None] = lambda table: None,
    also: Mapping[Table, Collection[str]] = MappingProxyType({}),
) -> Told:
    """Read what headline and findings need of each table, and count the rows of all."""
    columns = {table: set(needed) for table, needed in COLUMNS.items()}
    for table, needed in (
        (STEPS, STEP_COLUMNS),
        (MEMORY, MEMORY_COLUMNS),
        (COMM, COMM_COLUMNS),
        (EVENTS, EVENT_COLUMNS),
    ):
        columns.setdefault(table, set()).update(needed)
    for table, more in also.items():
        columns.setdefault(table, set()).update(more)
    tables = {}
    problems = list(run.problems)
    for table in TABLES:
        on_table(table)
        loaded = run.table(table, columns=sorted(columns.get(table, {"rank"})))
        tables[table] = loaded.table
        problems += loaded.problems
    facts = run_facts(run.manifest, tables)
    return Told(
        headline=summarise_run(
            steps=tables[STEPS],
            memory=tables[MEMORY],
            comm=tables[COMM],
            events=tables[EVENTS],
        ),
        facts=facts,
        findings=find_all(facts),
        table_rows={table.name: rows.num_rows for table, rows in tables.items()},
        tables=tables,
        problems=tuple(problems),
    )
