import pytest

from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.conditions import (
    Against,
    conditions_of,
    parse_condition,
    parse_conditions,
)
from probe.analyse.compare.gate import Exit, Result, judge
from probe.errors import UsageError
from tests.analyse.compared import made_run


def test_relative_absolute_and_plain_thresholds():
    relative, difference, value = parse_conditions("step_time>+5%, wire_bytes >= -1.5MB ,skipped>0")
    assert (relative.against, relative.threshold, relative.above) == (Against.RELATIVE, 0.05, True)
    assert (difference.against, difference.threshold) == (Against.DIFFERENCE, -1.5e6)
    assert difference.inclusive
    assert (value.against, value.threshold, value.inclusive) == (Against.VALUE, 0, False)


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("step_time>200ms", 200e6),
        ("step_time>0.2s", 200e6),
        ("peak_memory>1GiB", 2**30),
        ("throughput<1000", 1000),
        ("throughput<-5%", -0.05),
        ("final_loss>+1e-3", 1e-3),
        ("metric.eval/acc top-1<0.9", 0.9),
    ],
)
def test_units_fit_the_measure(text, threshold):
    assert parse_condition(text).threshold == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The gate is empty"),
        (" , ", "The gate is empty"),
        ("step_time", "'step_time' is no condition"),
        ("step_time>", "is no condition"),
        ("step_time>+5%%", "'%%' in 'step_time>+5%%' is no unit of step_time"),
        ("step_time>5%", r"could mean up or down; write +5% or -5%."),
        ("step_time>200", "needs a unit: ns, us, µs, ms, s, min, or % with a sign"),
        ("step_time>2GB", "'GB' in 'step_time>2GB' is no unit of step_time; it takes ns,"),
        ("skipped>3ms", "'ms' in 'skipped>3ms' is no unit of skipped; it takes only %, or none."),
        ("steptime>+5%", "There is no measure 'steptime' in 'steptime>+5%'; there are step_time,"),
        ("step_time<-100%", "can never hold"),
    ],
)
def test_a_wrong_gate_is_explained(text, said):
    with pytest.raises(UsageError) as refused:
        parse_conditions(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "document",
    [
        {"fail-if": ["step_time>+5%", "skipped>0"]},
        {"fail_if": "step_time>+5%,skipped>0"},
        {"fail-if": {"step_time": ">+5%", "skipped": ">0"}},
    ],
)
def test_a_file_states_a_gate_in_several_ways(document):
    assert [item.text for item in conditions_of(document, "gate.toml")] == [
        "step_time>+5%",
        "skipped>0",
    ]


@pytest.mark.parametrize("document", [{}, {"fail-if": []}, {"fail-if": 3}])
def test_a_file_without_a_gate_is_refused(document):
    with pytest.raises(UsageError, match=r"gate\.toml"):
        conditions_of(document, "gate.toml")


@pytest.fixture(scope="module")
def base():
    return made_run("base")


@pytest.fixture(scope="module")
def worse():
    return made_run(
        "worse", seed=1, backward_ms=60, skipped=(50,), params_bytes=2_300_000, accuracy=0.8
    )


def ends(first, second, gate, **keywords):
    report = judge(compare_runs([[first], [second]]), parse_conditions(gate), **keywords)
    return [item.result.value for item in report.outcomes], report.end, report.exit_code


@pytest.mark.parametrize(
    ("gate", "result"),
    [
        ("step_time>+5%", "failed"),
        ("step_time>+15%", "passed"),
        ("step_time>+10%", "inconclusive"),
        ("step_time>105ms", "failed"),
        ("step_time>+20ms", "passed"),
        ("throughput<-5%", "failed"),
        ("throughput<-15%", "passed"),
        ("peak_memory>+2%", "failed"),
        ("peak_memory>+6%", "passed"),
        ("peak_memory>+200kB", "failed"),
        ("peak_memory>1GB", "passed"),
        ("skipped>0", "failed"),
        ("skipped>+1", "passed"),
        ("skipped>=+1", "failed"),
        ("skipped>+5%", "failed"),
        ("metric.accuracy<-1%", "failed"),
        ("metric.accuracy<0.5", "passed"),
        ("metric.unknown<0.5", "inconclusive"),
        ("wire_bytes>+0%", "passed"),
    ],
)
def test_each_condition_is_judged(base, worse, gate, result):
    assert ends(base, worse, gate)[0] == [result]


def test_the_gravest_decides(base, worse):
    assert ends(base, worse, "skipped>0,step_time>+10%")[1:] == (Exit.REGRESSION, 1)
    assert ends(base, worse, "step_time>+10%")[1:] == (Exit.OK, 0)
    assert ends(base, worse, "step_time>+10%", strict=True)[1:] == (Exit.INCONCLUSIVE, 4)
    assert ends(base, base, "step_time>+5%,skipped>0", strict=True)[1:] == (Exit.OK, 0)
    other = made_run("other", steps=0)
    assert ends(base, other, "skipped>0")[1:] == (Exit.NOT_COMPARABLE, 3)


def test_strict_without_a_gate_asks_for_a_settled_headline(base):
    noisy = made_run("noisy", seed=2, steps=30, noise=0.2)
    assert judge(compare_runs([[base], [noisy]]), (), strict=True).exit_code == 4
    assert judge(compare_runs([[base], [noisy]]), ()).exit_code == 0
    assert judge(compare_runs([[base], [base]]), (), strict=True).exit_code == 0


def test_many_gates_are_judged_together(base):
    # GIVEN a change that a single gate finds only just
    slight = made_run("slight", seed=3, backward_ms=52.5, noise=0.06, steps=150)
    comparison = compare_runs([[base], [slight]])
    change = comparison.pairs[0].measures[0].change
    just = (change.low - 1) * 100 - 0.05
    (alone,) = judge(comparison, parse_conditions(f"step_time>{just:+.3f}%")).outcomes
    assert alone.result is Result.FAILED
    # WHEN it is one of several, THEN it has to be clearer
    gates = f"step_time>{just:+.3f}%,throughput<-40%,exposed_time>+60%"
    together = judge(comparison, parse_conditions(gates)).outcomes
    assert together[0].result is Result.INCONCLUSIVE
    assert together[0].probability > alone.probability


def test_nan_never_passes(base):
    gone = made_run("gone", final_loss=float("nan"))
    assert ends(base, gone, "final_loss>+1%")[0] == ["failed"]
