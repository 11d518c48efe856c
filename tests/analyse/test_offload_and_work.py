import pytest

from probe.analyse.offload import offload_traffic
from probe.analyse.steps.steps import counted_steps
from probe.analyse.steps.work import FlopsSource, model_work
from probe.schema.documents import DeviceFacts, Manifest, ModelFacts, RunConfig
from probe.schema.rows import OffloadRow, StepRow
from probe.schema.tables import OFFLOAD, STEPS
from probe.schema.vocabulary import Direction, MemoryCategory, Precision, Tier
from tests.analyse.hand_built import table_of

SECOND = 10**9


def counted(ranks=2, **other):
    rows = [StepRow(step=n, begin_ns=0, wall_ns=SECOND, **other) for n in range(4)]
    return counted_steps(table_of(STEPS, dict.fromkeys(range(ranks), rows)))


def moved(step, direction=Direction.FETCH, **other):
    return OffloadRow(
        step=step,
        tier=Tier.HOST,
        direction=direction,
        category=MemoryCategory.OPTIMIZER_STATES,
        **other,
    )


def test_offload_is_told_by_route_and_step():
    rows = [
        moved(n, moved_bytes=100, busy_ns=50, exposed_ns=20, transfers=2, queue_depth=n)
        for n in range(4)
    ]
    rows += [moved(n, Direction.STORE, moved_bytes=30, busy_ns=50, exposed_ns=30) for n in range(4)]
    result = offload_traffic(table_of(OFFLOAD, {0: rows, 1: rows}), counted())
    store, fetch = result.routes
    assert (store.direction, store.exposed_ns) == ("store", 30)
    assert (fetch.moved_bytes, fetch.transfers, fetch.queue_depth) == (100, 2, 3)
    assert fetch.bytes_per_s == 2 * SECOND
    assert result.hidden_share == 0.5
    assert result.exposed_step_share == 50 / SECOND
    assert offload_traffic(table_of(OFFLOAD, {}), counted()) is None


def test_recorded_operations_are_believed():
    manifest = Manifest(
        model=ModelFacts(flops_per_sample=1e12, param_elements=10),
        config=RunConfig(precision=Precision.BF16),
        devices=[DeviceFacts(name="NVIDIA A100-SXM4-80GB", count=2)],
    )
    work = model_work(counted(samples=39, tokens=5), manifest)
    assert work.source is FlopsSource.RECORDED
    assert work.flops_per_s == 78e12
    assert work.mfu == pytest.approx(78 / 624)


def test_otherwise_six_per_parameter_and_token_and_attention_if_known():
    plain = model_work(counted(tokens=50), Manifest(model=ModelFacts(param_elements=1000)))
    assert (plain.source, plain.flops_per_step) == (FlopsSource.SIX_PER_PARAMETER, 100 * 6000)
    assert plain.mfu is None
    shape = ModelFacts(param_elements=1000, layers=2, hidden=3, sequence=5)
    shaped = model_work(counted(tokens=50), Manifest(model=shape))
    assert shaped.flops_per_step == 100 * (6000 + 12 * 2 * 3 * 5)


def test_a_run_that_tells_too_little_makes_no_claim():
    assert model_work(counted(), Manifest(model=ModelFacts(param_elements=10))) is None
    assert model_work(counted(tokens=1), Manifest()) is None


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA T400 4GB", None),
        ("AMD EPYC", None),
    ],
)
def test_peaks_by_name(name, peak):
    manifest = Manifest(
        model=ModelFacts(param_elements=10),
        config=RunConfig(precision=Precision.FP16),
        devices=[DeviceFacts(name=name)],
    )
    assert model_work(counted(tokens=1), manifest).peak_flops_per_s == peak
