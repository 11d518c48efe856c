"""Steps that were done again count once: loaded, followed, sealed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from probe.launch.progress import Watcher
from probe.read.growing import GrowingTable
from probe.read.run import check_run, load_run
from probe.read.tail import Tail
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, Manifest
from probe.schema.rows import MetricRow, OverflowRow, StepRow
from probe.schema.tables import METRICS, OVERFLOW, STEPS, Table
from probe.schema.vocabulary import NonFinite, RunStatus, Severity, TensorRole
from probe.seal import seal_run

Attempt = tuple[int, int, frozenset[int]]
"""First step, how many steps, and those of them that overflow."""
COLUMNS = ["rank", "step"]

attempts = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 5), st.frozensets(st.integers(0, 12), max_size=3)),
    min_size=1,
    max_size=4,
)


@contextmanager
def new_run() -> Iterator[RunWriter]:
    with TemporaryDirectory() as folder:
        yield RunWriter.create(Path(folder), Manifest(name="again"))


def steps_of(attempt: Attempt) -> range:
    return range(attempt[0], attempt[0] + attempt[1])


def record(run: Path, rank: int, attempt: Attempt, number: int) -> None:
    """One attempt of one rank, as a process of its own would write it."""
    writer = RankWriter(run, Header(rank=rank))
    for step in steps_of(attempt):
        writer.write(StepRow(step=step, begin_ns=0, wall_ns=1, loss=float(number)))
        if step in attempt[2]:
            writer.write(
                OverflowRow(
                    step=step,
                    role=TensorRole.GRADIENT,
                    kind=NonFinite.INF,
                    loss_scale=float(number),
                )
            )
    writer.close()


def what_counts(ranks: list[list[Attempt]]) -> tuple[list[list[object]], list[list[object]]]:
    """Steps and overflows that no later attempt took back, in the plainest way."""
    steps, overflows = [], []
    for rank, tried in enumerate(ranks):
        left: dict[int, tuple[int, bool]] = {}
        for number, attempt in enumerate(tried):
            if attempt[1]:
                left = {step: held for step, held in left.items() if step < attempt[0]}
            left |= {step: (number, step in attempt[2]) for step in steps_of(attempt)}
        steps += [[rank, step, left[step][0]] for step in sorted(left)]
        overflows += [[rank, step, left[step][0]] for step in sorted(left) if left[step][1]]
    return steps, overflows


def loaded(run: Path, table: Table) -> list[list[object]]:
    rows = load_run(run).table(table, columns=[*COLUMNS, "attempt"]).table.to_pylist()
    return [list(row.values()) for row in rows]


@settings(max_examples=20)
@given(ranks=st.lists(attempts, min_size=1, max_size=3))
def test_the_last_attempt_counts_sealed_or_not(ranks: list[list[Attempt]]) -> None:
    with new_run() as writer:
        for rank, tried in enumerate(ranks):
            for number, attempt in enumerate(tried):
                record(writer.path, rank, attempt, number)
        steps, overflows = what_counts(ranks)
        writer.finish(RunStatus.FINISHED, {})
        before = check_run(load_run(writer.path))
        for _ in ("in lines", "sealed"):
            assert loaded(writer.path, STEPS) == steps
            assert loaded(writer.path, OVERFLOW) == overflows
            seal_run(writer.path)
        assert check_run(load_run(writer.path)) == before
        taken_back = sum(map(len, (steps_of(item) for tried in ranks for item in tried)))
        told = [item.what for item in before if "took back" in item.what]
        assert bool(told) == (taken_back > len(steps))


@settings(max_examples=40)
@given(tried=attempts, looks=st.sets(st.integers(0, 3)))
def test_whoever_follows_sees_the_same(tried: list[Attempt], looks: set[int]) -> None:
    with new_run() as writer:
        tails = {table: Tail(writer.path, table) for table in (STEPS, OVERFLOW)}
        growing = GrowingTable(writer.path, OVERFLOW, columns=("rank", "step", "attempt"))
        watcher = Watcher(writer.path)
        seen: dict[Table, list[list[object]]] = {STEPS: [], OVERFLOW: []}

        def look() -> None:
            for table, tail in tails.items():
                news = tail.poll()
                if news.from_start:
                    seen[table].clear()
                rows = news.rows.select([*COLUMNS, "attempt"]).to_pylist()
                seen[table].extend(list(row.values()) for row in rows)
            growing.look()
            watcher.look()

        for number, attempt in enumerate(tried):
            record(writer.path, 0, attempt, number)
            if number in looks:
                look()
        look()
        steps, overflows = what_counts([tried])
        assert sorted(seen[STEPS], key=lambda row: row[1]) == steps
        assert sorted(seen[OVERFLOW], key=lambda row: row[1]) == overflows
        assert growing.look().rows.num_rows == len(overflows)
        assert watcher.look().steps == (steps[-1][1] + 1 if steps else 0)


def test_a_restart_is_told_as_no_fault() -> None:
    with new_run() as writer:
        record(writer.path, 0, (0, 5, frozenset()), 0)
        record(writer.path, 0, (3, 4, frozenset()), 1)
        (told,) = (item for item in check_run(load_run(writer.path)) if "took back" in item.what)
        assert told.what == "holds 2 rows of steps that a restart took back"
        assert told.severity is Severity.INFO
        assert load_run(writer.path).headers[0].attempt == 1


def test_what_belongs_to_no_step_that_was_taken_back_stays() -> None:
    with new_run() as writer:
        # A script without an engine: samples before any step, twice.
        for number in range(2):
            rank = RankWriter(writer.path, Header())
            rank.write(MetricRow(step=0, name="rss", value=float(number)))
            rank.close()
        assert len(loaded(writer.path, METRICS)) == 2
