"""One run, opened: its documents at once, its tables when they are asked for.

`load_run` raises only where there is no directory to look into; everything that is wrong inside
is in `problems`, and everything that is right is still read.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from probe.errors import NotARunError, UsageError
from probe.read.columns import arrow_schema
from probe.read.documents import read_evidence
from probe.read.inside import rank_folders
from probe.read.loading import Loaded, checked_columns, load_table
from probe.read.nodes import read_whole
from probe.read.problem import Problem
from probe.read.run_traces import check_traces
from probe.read.status import RankEvidence, Verdict, conclude_status
from probe.read.unsealed import MEMORY_LIMIT_BYTES
from probe.schema.documents import Header, Manifest
from probe.schema.layout import MANIFEST, supports
from probe.schema.tables import TABLE_BY_NAME, TABLES, Table
from probe.schema.vocabulary import Severity

_PARTS = 64
"""Parts in which a run is checked."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run directory and what its documents say."""

    path: Path
    manifest: Manifest
    """As far as it was readable; every field has a default."""
    ranks: tuple[int, ...]
    """Ranks that have a folder."""
    evidence: dict[int, RankEvidence]
    verdict: Verdict
    problems: tuple[Problem, ...]
    """What is wrong with the run apart from its tables, which report their own."""

    @property
    def name(self) -> str:
        """The directory's name, which is what people type."""
        return self.path.name

    @property
    def readable(self) -> bool:
        """Whether the run's tables are in a format that we read."""
        return supports(self.manifest.format_version)

    @cached_property
    def headers(self) -> dict[int, Header]:
        """The headers of the ranks that have a readable one."""
        return {rank: item.header for rank, item in self.evidence.items() if item.header}

    def table(
        self,
        table: Table | str,
        *,
        columns: Sequence[str] | None = None,
        ranks: Collection[int] | None = None,
        limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> Loaded:
        """Rows of one table, read now; sealed or not makes no difference."""
        table = known_table(table) if isinstance(table, str) else table
        if not self.readable:
            return _nothing_of(table, columns)
        asked = self.headers if ranks is None else self.headers.keys() & set(ranks)
        return load_table(
            self.path,
            table,
            columns=columns,
            ranks=ranks,
            limit_bytes=limit_bytes,
            restarted=[rank for rank in asked if self.headers[rank].attempt > 0],
        )


def load_run(path: str | Path) -> Run:
    """Open a run directory."""
    path = Path(path)
    if not path.is_dir():
        kind = "is a file, not a run directory" if path.exists() else "does not exist"
        raise NotARunError(f"{path} {kind}; `probe list DIR` shows the runs below a folder.")
    try:
        ranks, problems = rank_folders(path)
    except OSError as error:
        raise NotARunError(f"{path} cannot be opened ({error.strerror}).") from error
    manifest, found = read_whole(path)
    problems += found
    if manifest is None and not ranks:
        raise NotARunError(
            f"{path} holds no run: neither {MANIFEST} nor a rank's folder is in it; "
            "`probe list DIR` shows the runs below a folder."
        )
    evidence = {}
    for rank in ranks:
        evidence[rank], found = read_evidence(path, rank)
        problems += found
    problems += _missing_ranks(manifest, ranks)
    return Run(
        path=path,
        manifest=manifest or Manifest(),
        ranks=ranks,
        evidence=evidence,
        verdict=conclude_status(manifest, evidence),
        problems=tuple(problems),
    )


def check_run(
    run: Run, *, on_table: Callable[[Table], None] = lambda table: None
) -> tuple[Problem, ...]:
    """Every problem of a run, those inside tables and traces included; reads everything once.

    `on_table` is told of each table before it is read.
    """
    problems = list(run.problems)
    # A few ranks at a time, so that a run of any size fits and one of thousands of ranks ends.
    at_once = max(1, len(run.ranks) // _PARTS)
    parts = [run.ranks[start : start + at_once] for start in range(0, len(run.ranks), at_once)]
    for table in TABLES if run.readable else ():
        on_table(table)
        for ranks in parts or (None,):
            problems += run.table(table, ranks=ranks).problems
    if run.readable:
        problems += check_traces(run.path, run.ranks)
    unique = dict.fromkeys(problems)
    order = list(Severity)
    return tuple(sorted(unique, key=lambda item: (order.index(item.severity), item.file)))


def known_table(name: str) -> Table:
    """The table of this name."""
    if name not in TABLE_BY_NAME:
        raise UsageError(f"There is no table {name!r}; there are {', '.join(TABLE_BY_NAME)}.")
    return TABLE_BY_NAME[name]


def _missing_ranks(manifest: Manifest | None, ranks: tuple[int, ...]) -> list[Problem]:
    """A problem where the manifest speaks of more ranks than there are folders."""
    if manifest is None or manifest.world_size <= len(ranks):
        return []
    present = set(ranks)
    count = manifest.world_size - len(present)
    absent = (rank for rank in range(min(manifest.world_size, 1 << 20)) if rank not in present)
    named = ", ".join(str(rank) for rank, _ in zip(absent, range(8), strict=False))
    return [
        Problem(
            severity=Severity.WARNING,
            file=MANIFEST,
            what=f"speaks of {manifest.world_size} ranks; {count} have no folder"
            f" ({named}{', …' if count > 8 else ''})",
            hint="They have not started, or the run was copied in part; the others are read.",
        )
    ]


def _nothing_of(table: Table, columns: Sequence[str] | None) -> Loaded:
    names = list(checked_columns(table, columns))
    empty: pa.Table = arrow_schema(table).empty_table().select(names)
    return Loaded(table=empty, problems=(), source_bytes={})
