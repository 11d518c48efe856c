"""Healthy runs have no finding, senseless ones fail no rule, and the largest gain comes first."""

import random
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.analyse.findings import catalogue
from probe.analyse.findings.catalogue import RULES, find_all
from probe.analyse.memory.theory import expected_bytes
from probe.analyse.run_facts import run_facts
from probe.schema.documents import Manifest
from probe.schema.tables import TABLES
from probe.schema.vocabulary import Precision, Tier
from tests.analyse.hand_built import table_of
from tests.analyse.made_run import MS, configured, everywhere, facts_of, found


def test_a_healthy_run_has_no_finding():
    assert found() == {}


@pytest.mark.parametrize(
    "setup",
    [
        {"precision": Precision.FP32, "stage": 0},
        {"precision": Precision.AMP_BF16, "stage": 1},
        {"precision": Precision.BF16, "stage": 3},
        {"precision": Precision.FP16, "stage": 3, "offload_params": Tier.HOST},
        {"precision": Precision.FP16, "stage": 1, "offload_optimizer": Tier.DISK},
    ],
)
def test_a_run_that_holds_what_its_stage_says_has_no_finding(setup):
    manifest = configured(**setup)
    states = {
        f"{tier}_{category}_bytes": size
        for (tier, category), size in expected_bytes(manifest).items()
    }
    assert found(manifest, memory=everywhere(**states)) == {}


def test_a_rank_alone_has_no_finding():
    alone = msgspec.structs.replace(configured(stage=0), world_size=1)
    states = {
        f"{tier}_{category}_bytes": size for (tier, category), size in expected_bytes(alone).items()
    }
    assert found(alone, ranks=1, memory=everywhere(**states)) == {}


def test_an_empty_run_has_no_finding():
    tables = {table: table_of(table, {}) for table in TABLES}
    assert find_all(run_facts(Manifest(), tables)) == ()


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_no_finding(seed):
    """Phases of all ranks vary by 5 % from step to step, and now and then a step is late."""
    chance = random.Random(seed)
    late = {step: 40 * MS for step in range(60) if chance.random() < 0.03}

    def steps(step, rank):
        phases = {
            name: round(base * MS * chance.gauss(1, 0.05))
            for name, base in (("data_ns", 1), ("forward_ns", 30), ("backward_ns", 50))
        }
        waits = {"reduce_wait_ns": 2 * MS + late.get(step, 0), "optimizer_ns": 15 * MS}
        return {**phases, **waits, "wall_ns": sum(phases.values()) + sum(waits.values()) + 2 * MS}

    def comm(step, rank):
        return {"busy_ns": round(10 * MS * chance.gauss(1, 0.05))}

    assert found(steps=steps, comm=comm) == {}


def test_the_largest_gain_comes_first():
    slow = everywhere(data_ns=21 * MS, wall_ns=120 * MS, clip_coefficient=0.5)
    result = find_all(facts_of(steps=slow, comm=everywhere(exposed_ns=15 * MS)))
    shares = [finding.gain.share for finding in result]
    assert [finding.id for finding in result] == [
        "exposed-communication",
        "data-bound",
        "clip-rate",
    ]
    assert shares == sorted(shares, reverse=True)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_rule_fails_on_a_run_that_makes_no_sense(data):
    numbers = st.sampled_from([0, 1, 10**6, 10**9])
    chosen = data.draw(
        st.fixed_dictionaries(
            dict.fromkeys(("wall_ns", "data_ns", "forward_ns", "recompute_ns"), numbers)
        )
    )
    scale = data.draw(st.sampled_from([None, 0.0, 1.0, float("inf"), float("nan")]))
    skipped = data.draw(st.booleans())
    memory = data.draw(
        st.fixed_dictionaries(
            dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes"), numbers)
        )
    )
    facts = facts_of(
        ranks=2,
        count=25,
        steps=everywhere(**chosen, loss_scale=scale, skipped=skipped),
        memory=everywhere(**memory),
        numerics=everywhere(largest_magnitude=scale, loss_scale=scale),
        comm=everywhere(busy_ns=chosen["data_ns"], calls=chosen["wall_ns"]),
    )
    for rule in RULES:
        rule(facts)


def test_the_readme_lists_every_rule():
    room = Path(catalogue.__file__).parent
    rules = {path.stem for path in room.glob("*.py") if "def find(" in path.read_text()}
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", (room.parent / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(rule.replace("_", "-") for rule in rules)
    assert len(RULES) == len(rules) == len(listed)


def test_every_rule_has_a_test_that_sets_it_off():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_findings_*.py"))
    room = Path(catalogue.__file__).parent
    rules = [path.stem for path in room.glob("*.py") if "def find(" in path.read_text()]
    assert [rule for rule in rules if f'only("{rule.replace("_", "-")}"' not in tests] == []
