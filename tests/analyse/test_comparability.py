import msgspec
import pytest

from probe.analyse.compare.comparability import Effect, Judgement, Kind, compare_setups
from probe.analyse.compare.setup import setup_of
from probe.schema.documents import (
    DeviceFacts,
    GitFacts,
    HostFacts,
    Manifest,
    ModelFacts,
    RunConfig,
)
from probe.schema.vocabulary import Precision, Tier

BASE = Manifest(
    run_id="a",
    name="a",
    command=["train.py", "--stage", "2"],
    script="train.py",
    script_sha256="ab" * 32,
    world_size=2,
    backend="gloo",
    config=RunConfig(
        precision=Precision.FP16,
        stage=2,
        train_batch_samples=16,
        settings={"optimizer.lr": 1e-3, "betas": [0.9, 0.99], "nested": {"deep": True}},
    ),
    model=ModelFacts(name="gpt", param_elements=1000, layers=2),
    hosts=[HostFacts(name="h1", cpu="c", cores=8)],
    devices=[DeviceFacts(name="cpu", kind="cpu")],
    versions={"torch": "2.13.0"},
    git=GitFacts(commit="c1", dirty=False),
    seeds={"torch": 0},
    environment={"OMP_NUM_THREADS": "1"},
)


def compare(other, **keywords):
    return compare_setups(setup_of(BASE), setup_of(other), **keywords)


def changed(**fields):
    return msgspec.structs.replace(BASE, **fields)


def test_a_setup_is_flat_and_keeps_types():
    setup = setup_of(BASE, engine="zeroprobe")
    assert setup["config.stage"] == 2
    assert setup["settings.optimizer.lr"] == 1e-3
    assert setup["settings.betas"] == "0.9, 0.99"
    assert setup["settings.nested.deep"] is True
    assert setup["engine"] == "zeroprobe"
    assert setup["hosts.cores"] == 8
    assert "model.hidden" not in setup
    assert "notes" not in setup


def test_machines_that_differ_are_told_together():
    hosts = [HostFacts(name="b", cores=8), HostFacts(name="a", cores=8)]
    setup = setup_of(Manifest(hosts=hosts))
    assert (setup["hosts.name"], setup["hosts.cores"]) == ("a, b", 8)


def test_the_same_setup_is_comparable_whatever_the_run_is_called():
    found = compare(changed(run_id="b", name="b", notes="again", tags=["x"], started_ns=5))
    assert (found.judgement, found.reasons, found.differences) == (Judgement.COMPARABLE, (), ())


@pytest.mark.parametrize(
    ("fields", "reason", "effects"),
    [
        ({"precision": Precision.BF16}, "precision", {Effect.LOSS}),
        ({"stage": 3}, "ZeRO stage", set()),
        ({"offload_optimizer": Tier.HOST}, "offload", set()),
        ({"train_batch_samples": 32}, "batch", {Effect.WORK, Effect.LOSS}),
        ({"settings": {**BASE.config.settings, "optimizer.lr": 2e-3}}, "setting", {Effect.LOSS}),
    ],
)
def test_what_people_compare_for_is_intended(fields, reason, effects):
    found = compare(changed(config=msgspec.structs.replace(BASE.config, **fields)))
    assert found.judgement is Judgement.INTENDED_CHANGE
    assert found.reasons == (reason,)
    assert {effect for effect in Effect if found.touches(effect)} == effects


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"hosts": [HostFacts(name="h2", cpu="c", cores=8)]}, "hosts.name"),
        ({"versions": {"torch": "2.12.0"}}, "versions.torch"),
        ({"seeds": {"torch": 1}}, "seeds.torch"),
        ({"environment": {"OMP_NUM_THREADS": "4"}}, "environment.OMP_NUM_THREADS"),
        ({"git": GitFacts(commit="c1", dirty=True)}, "git.dirty"),
        ({"command": ["train.py"]}, "command"),
    ],
)
def test_what_should_not_matter_is_a_nuisance(fields, name):
    found = compare(changed(**fields))
    assert found.judgement is Judgement.COMPARABLE
    assert [(item.name, item.kind) for item in found.differences] == [(name, Kind.NUISANCE)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"model": ModelFacts(name="gpt", param_elements=2000, layers=2)},
            "another model (model.param_elements)",
        ),
        (
            {"devices": [DeviceFacts(name="cpu", kind="cuda")]},
            "another kind of device (devices.kind)",
        ),
    ],
)
def test_another_model_or_device_is_not_comparable_unless_declared(fields, reason):
    found = compare(changed(**fields))
    assert (found.judgement, found.reasons) == (Judgement.NOT_COMPARABLE, (reason,))
    name = found.differences[0].name
    declared = compare(changed(**fields), meant=[name])
    assert declared.judgement is Judgement.INTENDED_CHANGE
    assert declared.differences[0].why.endswith(", as declared")


def test_what_only_one_run_tells_breaks_nothing():
    found = compare(changed(model=ModelFacts(name="gpt", layers=2)))
    assert found.judgement is Judgement.COMPARABLE
    (item,) = found.differences
    assert (item.first, item.second, item.why) == (1000, None, "another model; only A tells")


def test_breaking_differences_come_first_and_obstacles_before_them():
    other = changed(model=ModelFacts(param_elements=3), world_size=4, versions={})
    found = compare(other, obstacles=["B recorded no steps"])
    assert found.reasons[0] == "B recorded no steps"
    kinds = [item.kind for item in found.differences]
    assert kinds == sorted(kinds, key=list(Kind).index)


def test_numbers_and_words_are_not_the_same():
    settings = {**BASE.config.settings, "optimizer.lr": "0.001"}
    config = msgspec.structs.replace(BASE.config, settings=settings)
    assert len(compare(changed(config=config)).differences) == 1
    settings["optimizer.lr"] = 1e-3
    settings["nested"] = {"deep": 1}
    config = msgspec.structs.replace(BASE.config, settings=settings)
    assert not compare(changed(config=config)).differences
