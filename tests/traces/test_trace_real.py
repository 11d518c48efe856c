"""Real traces of several ages, where they lie beside the checkout; numbers as other tools have."""

from pathlib import Path

import pytest

from probe.adopt import adopt_traces
from probe.analyse.trace.activity import find_activity
from probe.analyse.trace.breakdown import add_up, break_down
from probe.analyse.trace.collectives import collective_table
from probe.analyse.trace.critical_path import critical_path
from probe.analyse.trace.gaps import find_gaps
from probe.analyse.trace.kernels import kernel_table
from probe.analyse.trace.operators import operator_table
from probe.analyse.trace.steps import find_steps
from probe.read.run import load_run
from probe.read.trace_file import read_trace
from probe.schema.vocabulary import CollectiveOp

TRACES = Path(__file__).parents[3] / "shared" / "traces"
OLD = TRACES / "cuda_8ranks_rank3.json.gz"
NEW = TRACES / "cuda_ddp_2ranks_rank0.json.gz"
GLOO = TRACES / "gloo_300ranks_rank34.json.gz"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"needs real traces in {TRACES}")


def test_the_old_trace_gives_hta_s_numbers() -> None:
    trace = read_trace(OLD)
    assert not trace.problems
    assert (trace.facts.rank, trace.facts.world_size) == (3, 8)
    assert len(trace.events) == 74_936
    found = find_steps(trace)
    assert [step.number for step in found.steps] == list(range(1009, 1015))
    # HTA leaves the last step out, and so does this; its numbers are in whole microseconds.
    five = add_up(break_down(find_activity(trace), found.steps[:-1]))
    assert five.computation_ns == 234_760_000
    assert five.exposed_comm_ns == 69_110_000 + 1_087_000
    assert five.exposed_memcpy_ns == 16_328_000
    assert round(100 * (five.overlap or 0), 2) == 47.03
    # From the first kernel to the last it is 383,404 us; a step also ends where the next begins.
    assert five.wall_ns == 383_404_000 + five.idle_ns - 62_119_000


def test_the_new_trace_gives_sizes_of_collectives() -> None:
    trace = read_trace(NEW)
    assert not trace.problems
    assert trace.facts.base_ns == 1711964646000000000
    sizes = {row.size_bytes for row in collective_table(trace) if row.op is CollectiveOp.ALL_REDUCE}
    assert sizes == {8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160}
    assert sum(row.calls for row in kernel_table(trace)) == 2700 + 960 + 114
    rows = operator_table(trace)
    assert sum(row.device_ns for row in rows) <= sum(row.total_ns for row in kernel_table(trace))


def test_the_gloo_trace_gives_what_it_has() -> None:
    trace = read_trace(GLOO)
    assert not trace.problems
    (step,) = find_steps(trace).steps
    (parts,) = break_down(find_activity(trace), [step])
    assert (parts.wall_ns, parts.computation_ns) == (210_109_162, 0)
    assert parts.exposed_comm_ns + parts.idle_ns == parts.wall_ns
    assert {row.size_bytes for row in collective_table(trace)} == {1_285_084, 8_329_644}


@pytest.mark.parametrize("path", [OLD, NEW, GLOO], ids=lambda path: path.name)
def test_every_analysis_keeps_its_identity(path: Path) -> None:
    trace = read_trace(path)
    activity, steps = find_activity(trace), find_steps(trace).steps
    gaps = find_gaps(trace, activity, steps)
    for step, parts, gap in zip(steps, break_down(activity, steps), gaps, strict=True):
        assert sum(critical_path(trace, step).by_kind_ns.values()) == step.wall_ns
        assert sum(gap.by_cause_ns.values()) == parts.idle_ns


def test_the_folder_is_imported_as_one_run(tmp_path) -> None:
    run = load_run(adopt_traces([TRACES], tmp_path).path)
    assert run.ranks == (0, 3, 34)
    assert run.manifest.world_size == 300
    assert len(run.table("steps").frame()) == 6 + 3 + 1


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_real_trace_that_was_cut_gives_its_beginning(tmp_path, share: float) -> None:
    whole = NEW.read_bytes()
    path = tmp_path / NEW.name
    path.write_bytes(whole[: int(len(whole) * share)])
    trace = read_trace(path)
    assert trace.problems
    assert 0 < len(trace.events) < 26_932
    assert find_steps(trace).steps
