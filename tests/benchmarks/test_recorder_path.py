"""The benchmark of the recorder's own path runs the recorder that there is."""

from pathlib import Path

from benchmarks.recorder_path import measure
from probe.schema.rows import CommCallRow, CommRow, MemoryRow, StepRow
from probe.schema.tables import TABLE_BY_ROW

STEPS = 70


def test_it_writes_what_a_step_of_stage_3_writes(tmp_path: Path) -> None:
    parts = measure(tmp_path, STEPS, cold=False)
    assert set(parts) == {"collectives", "rows", "all"}
    assert all(len(times) == len(parts["all"]) > 0 for times in parts.values())
    lines = {
        row: (tmp_path / "rank_00000" / TABLE_BY_ROW[row].file_name).read_text().count("\n")
        for row in (StepRow, CommRow, CommCallRow, MemoryRow)
    }
    assert lines == {StepRow: STEPS, CommRow: 5 * STEPS, CommCallRow: 2 * 15, MemoryRow: STEPS}
