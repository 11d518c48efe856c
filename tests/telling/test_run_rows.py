"""Many runs in a table: several folders, budgets, and what is remembered."""

from pathlib import Path

from probe.schema.tables import STEPS
from probe.telling.run_rows import Ledger
from probe.telling.shelf import shelve
from tests.building import file_of, make_run


def named(folder: Path, name: str, **facts: object) -> Path:
    return make_run(folder, **facts).rename(folder / name)


def test_runs_of_the_same_name_have_keys_of_their_own(tmp_path) -> None:
    paths = [named(tmp_path / a, "same", steps=1) for a in ("first", "second", "third/first")]
    named(tmp_path / "first", "other", steps=1)
    shelf = shelve([tmp_path / "first", tmp_path / "second", tmp_path / "third" / "first"])
    assert set(shelf) == {"other", "first/same", "second/same", str(paths[2])}
    assert shelve([tmp_path / "nowhere"]) == {}


def test_a_ledger_reads_as_much_as_it_may_and_forgets_what_changed(tmp_path) -> None:
    for name in ("a", "b", "c"):
        named(tmp_path, name, steps=2)
    shelf = shelve([tmp_path])
    ledger = Ledger()
    unread = [ledger.rows(shelf, budget_s=0.0).unread for _ in range(4)]
    assert unread == [2, 1, 0, 0]
    rows = {row.key: row for row in ledger.rows(shelf, budget_s=0.0).rows}
    assert all(row.headline and row.headline.recorded_steps == 2 for row in rows.values())
    # WHEN a run grows, its numbers alone are read again
    changed = file_of(tmp_path / "b", STEPS)
    changed.write_bytes(changed.read_bytes() + changed.read_bytes()[-400:].split(b"\n", 1)[1])
    assert ledger.rows(shelf, budget_s=0.0).unread == 0
    assert ledger.rows(shelf, budget_s=0.0).rows == ledger.rows(shelf, budget_s=9.0).rows


def test_a_ledger_is_bounded(tmp_path) -> None:
    for name in ("a", "b", "c"):
        named(tmp_path, name, steps=1)
    ledger = Ledger(most=2)
    shelf = shelve([tmp_path])
    assert ledger.rows(shelf, budget_s=60.0).unread == 0
    assert ledger.rows(shelf, budget_s=0.0).unread >= 0
    assert len(ledger._known) == 2
