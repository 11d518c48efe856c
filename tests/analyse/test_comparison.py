"""Whole comparisons of runs whose differences were put there."""

import math

import numpy as np
import pytest

from probe.analyse.compare.comparability import Judgement
from probe.analyse.compare.comparison import compare_runs, side_label
from probe.analyse.compare.loss_curve import LossCurve, final_loss, losses_part
from probe.analyse.compare.measure import Outcome, Verdict, named
from probe.analyse.compare.measured_run import measure_run
from probe.analyse.compare.next_looks import next_looks
from probe.analyse.compare.operator_shifts import TracedTime, operator_shifts
from probe.schema.tables import STEPS
from probe.schema.vocabulary import Phase, Precision, RunStatus
from tests.analyse.compared import MS, category_of, made_run, manifest, rows_of_run
from tests.analyse.hand_built import table_of


@pytest.fixture(scope="module")
def base():
    return made_run("base")


def pair_of(first, second, **keywords):
    (pair,) = compare_runs([[first], [second]], **keywords).pairs
    return pair


def verdicts(pair):
    return {item.name: item.verdict.value for item in pair.measures}


def test_a_run_against_itself_is_the_same_in_everything(base):
    pair = pair_of(base, base)
    assert pair.comparability.judgement is Judgement.COMPARABLE
    assert verdicts(pair) == {
        "step_time": "same",
        "throughput": "same",
        "exposed_time": "same",
        "peak_memory": "equal",
        "host_memory": "equal",
        "wire_bytes": "equal",
        "skipped": "equal",
        "loss_scale": "equal",
        "final_loss": "equal",
        "metric.accuracy": "equal",
    }
    assert pair.losses.equal_steps == pair.losses.common_steps == 200
    assert next_looks(pair) == ()


def test_another_start_of_the_same_is_not_called_different(base):
    pair = pair_of(base, made_run("again", seed=1))
    assert verdicts(pair)["step_time"] in ("same", "inconclusive")
    assert verdicts(pair)["skipped"] == "equal"


def test_a_slower_backward_is_found_and_named(base):
    pair = pair_of(base, made_run("slow", seed=1, backward_ms=58))
    time = pair.headline
    assert (time.name, time.verdict, time.outcome) == (
        "step_time",
        Verdict.SLOWER,
        Outcome.WORSE,
    )
    assert time.relative == pytest.approx(0.08, abs=0.01)
    assert time.change.low < 1.08 < time.change.high
    assert named(pair.measures, "throughput").verdict is Verdict.SLOWER
    # 108 against 100 ms: exposed time did not change
    assert named(pair.measures, "exposed_time").verdict in (Verdict.SAME, Verdict.INCONCLUSIVE)
    fall = {part.phase: part for part in pair.waterfall.phases}
    assert fall[Phase.BACKWARD].delta_ns == pytest.approx(8 * MS, rel=0.1)
    assert next_looks(pair)[0].startswith("Backward makes ")


def test_the_waterfall_sums_to_the_difference(base):
    fall = pair_of(base, made_run("slow", seed=1, backward_ms=58, wait_ms=12)).waterfall
    delta = fall.second_ns - fall.first_ns
    assert sum(part.delta_ns for part in fall.phases) == pytest.approx(delta, abs=1)
    assert delta == pytest.approx(10 * MS, rel=0.1)


def test_spikes_leave_the_waterfall_alone(base):
    rows = rows_of_run()
    spiky = rows_of_run()
    assert rows[STEPS].keys() == {0, 1}
    for rank in (0, 1):
        for step in (50, 90, 130):
            row = spiky[STEPS][rank][step]
            spiky[STEPS][rank][step] = type(row)(
                **{name: getattr(row, name) for name in row.__struct_fields__}
                | {"wall_ns": row.wall_ns + 900 * MS, "checkpoint_ns": 900 * MS}
            )
    tables = {table: table_of(table, by_rank) for table, by_rank in spiky.items()}
    pair = pair_of(base, measure_run(tables, name="spiky", manifest=manifest()))
    assert pair.headline.verdict is Verdict.SAME
    assert abs(pair.waterfall.second_ns - pair.waterfall.first_ns) < 0.5 * MS


def test_profiled_and_skipped_steps_do_not_count(base):
    odd = made_run("odd", skipped=(20, 21), profiled=(30, 31, 32))
    comparison = compare_runs([[base], [odd]])
    line = comparison.runs[1]
    assert line.counted_steps == 195
    assert {reason.value: count for reason, count in line.excluded.items() if count} == {
        "skipped": 2,
        "profiled": 3,
    }
    skipped = named(comparison.pairs[0].measures, "skipped")
    assert (skipped.first, skipped.second, skipped.verdict) == (0, 2, Verdict.MORE)
    assert skipped.outcome is Outcome.WORSE
    assert "skips more steps" in next_looks(comparison.pairs[0])[-1]


def test_memory_moves_in_its_category_beside_theory(base):
    less = made_run("less", facts={"stage": 3}, params_bytes=1_000_000)
    pair = pair_of(base, less)
    params = category_of(pair, "params")
    assert (params.first_bytes, params.second_bytes) == (2_000_000, 1_000_000)
    assert (params.first_theory_bytes, params.second_theory_bytes) == (2_000_000, 1_000_000)
    peak = named(pair.measures, "peak_memory")
    assert (peak.first, peak.second, peak.verdict) == (5e6, 4e6, Verdict.LESS)
    assert peak.outcome is Outcome.BETTER
    assert "device params" in next_looks(pair)[-1]


def test_traffic_is_exact(base):
    pair = pair_of(base, made_run("more", wire_bytes=1_500_000))
    (shift,) = pair.traffic
    assert (shift.op, shift.wire_op) == ("reduce_scatter", "all_to_all")
    assert (shift.first_wire_bytes, shift.second_wire_bytes) == (1_000_000, 1_500_000)
    assert named(pair.measures, "wire_bytes").verdict is Verdict.MORE


def test_other_work_is_judged_by_throughput(base):
    pair = pair_of(base, made_run("large", seed=1, facts={"batch": 32}, samples=16))
    assert pair.headline.name == "throughput"
    assert pair.headline.verdict is Verdict.FASTER
    assert pair.headline.relative == pytest.approx(1.0, abs=0.02)
    assert any("other work" in sentence for sentence in pair.caveats)


def test_losses_part_where_they_do(base):
    pair = pair_of(base, made_run("apart", loss_from=120, facts={"precision": Precision.BF16}))
    assert pair.comparability.judgement is Judgement.INTENDED_CHANGE
    assert pair.losses.first_unequal_step == pair.losses.first_apart_step == 120
    assert pair.losses.equal_steps == 120
    final = named(pair.measures, "final_loss")
    assert (final.verdict, final.outcome) == (Verdict.MORE, Outcome.WORSE)
    assert final.relative == pytest.approx(0.5)
    assert "Losses are apart from step 120 on (precision differs)." in next_looks(pair)


def test_runs_of_different_length_compare_their_loss_where_both_were(base):
    pair = pair_of(base, made_run("short", steps=60))
    final = named(pair.measures, "final_loss")
    assert (final.of, final.verdict) == ("to step 59", Verdict.EQUAL)
    (whole,) = {run.final_loss for run in compare_runs([[base], [base]]).runs}
    assert final.first > whole


def test_a_noisy_run_is_told(base):
    pair = pair_of(base, made_run("noisy", seed=5, noise=0.3))
    assert any("of B stray by more than" in sentence for sentence in pair.caveats)


def test_a_run_made_of_traces_counts_its_profiled_steps(base):
    traced = made_run("traced", steps=20, profiled=range(20))
    line = compare_runs([[traced], [traced]]).runs[0]
    assert line.counted_steps == 20
    pair = pair_of(traced, traced)
    assert pair.headline.verdict is Verdict.SAME
    assert "Every step was profiled: times carry what the profiler costs." in pair.caveats
    # WHEN the other was not profiled, THEN their times do not belong side by side
    mixed = pair_of(base, traced)
    assert mixed.comparability.judgement is Judgement.NOT_COMPARABLE
    assert mixed.comparability.reasons == ("every step of B was profiled, of the other not",)


def test_operators_are_compared_where_both_have_a_trace():
    first = TracedTime(kernels={}, operators={"aten::mm": (4, 8e6), "aten::add": (2, 1e6)})
    second = TracedTime(
        kernels={"gemm": (1, 1.0)}, operators={"aten::mm": (4, 5e6), "aten::mul": (1, 2e6)}
    )
    assert operator_shifts(first, None) == ()
    found = [(item.name, item.delta_ns, item.kernel) for item in operator_shifts(first, second)]
    assert found == [
        ("aten::mm", -3e6, False),
        ("aten::mul", 2e6, False),
        ("aten::add", -1e6, False),
    ]


def test_a_run_without_steps_is_not_comparable(base):
    pair = pair_of(base, made_run("none", steps=0))
    assert pair.comparability.judgement is Judgement.NOT_COMPARABLE
    assert pair.comparability.reasons == ("B recorded no steps",)
    assert pair.headline is None or pair.headline.change is None
    assert pair.waterfall is None


def test_a_run_that_did_not_end_well_is_told(base):
    pair = pair_of(base, made_run("killed", steps=8, status=RunStatus.KILLED))
    assert "B (killed) did not end as planned." in pair.caveats
    assert "Only 8 steps of B count." in pair.caveats


def test_several_runs_a_side(base):
    firsts = [base, made_run("a2", seed=2), made_run("a3", seed=3)]
    seconds = [made_run(f"b{seed}", seed=seed, backward_ms=60) for seed in (4, 5, 6)]
    comparison = compare_runs([firsts, seconds])
    assert [run.side for run in comparison.runs] == ["A", "A", "A", "B", "B", "B"]
    (pair,) = comparison.pairs
    assert pair.headline.verdict is Verdict.SLOWER
    assert pair.headline.change.runs == (3, 3)
    assert pair.headline.change.between_runs is not None
    assert not any("One run a side" in sentence for sentence in pair.caveats)


def test_a_side_of_different_programs_is_refused(base):
    mixed = [base, made_run("other", facts={"stage": 3})]
    pair = compare_runs([mixed, [base]]).pairs[0]
    assert pair.comparability.judgement is Judgement.NOT_COMPARABLE
    assert pair.comparability.reasons == ("the runs of A are not starts of the same: ZeRO stage",)


def test_later_sides_are_held_against_the_first(base):
    comparison = compare_runs([[base], [made_run("b")], [made_run("c", seed=1, backward_ms=60)]])
    assert [(pair.first, pair.second) for pair in comparison.pairs] == [("A", "B"), ("A", "C")]
    assert [pair.headline.verdict.value for pair in comparison.pairs] == ["same", "slower"]


def test_side_labels():
    assert [side_label(index) for index in (0, 1, 25, 26)] == ["A", "B", "Z", "S27"]


def curve(losses, applied=None):
    return LossCurve(
        step=np.arange(len(losses)),
        loss=np.array(losses, dtype=float),
        applied=np.ones(len(losses), bool) if applied is None else np.array(applied),
    )


def test_nan_equals_nan_and_is_apart_from_numbers():
    part = losses_part(curve([1, math.nan, 3, 4]), curve([1, math.nan, 3, math.nan]))
    assert (part.equal_steps, part.first_unequal_step, part.first_apart_step) == (3, 3, 3)


def test_a_bit_is_not_apart():
    part = losses_part(curve([1, 2, 3]), curve([1, 2 + 1e-12, 3.1]))
    assert (part.first_unequal_step, part.first_apart_step) == (1, 2)


def test_curves_without_a_common_step():
    part = losses_part(curve([]), curve([1, 2]))
    assert (part.common_steps, part.first_unequal_step, part.last_first) == (0, None, None)


def test_the_final_loss_is_of_applied_steps():
    assert final_loss(curve([5, 4, 99], [True, True, False])) == 4
    assert final_loss(curve([])) is None
    assert final_loss(curve(range(1000))) == pytest.approx(989.5)
