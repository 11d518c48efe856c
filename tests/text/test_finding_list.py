"""What findings look like at 80 columns, to the letter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.console import Group

from probe.analyse.findings.catalogue import find_all
from probe.analyse.findings.finding import Change, Evidence, Finding, Gain, GainKind, Link, View
from probe.text.finding_list import finding_facts, finding_lines, finding_list
from tests.analyse.made_run import MS, everywhere, facts_of

Shown = Callable[[Any], str]
HOSTILE = "evil\x1b[2J\n[red]\u202e"


def finding(
    kind: GainKind = GainKind.TIME, name: str = "head", link: Link | None = None
) -> Finding:
    return Finding(
        id="overflow-in-one-tensor",
        title=f"{name} is the first to overflow in 3 of 3 steps.",
        evidence=(
            Evidence(name="tensor", value=f"{name} (gradient)"),
            Evidence(name="ranks", value="1"),
        ),
        changes=(
            Change(setting="--bf16", why="It has the range of fp32."),
            Change(setting="--clip 1.0", why="If it grows, bound what it is updated by."),
        ),
        gain=Gain(kind=kind, share=0.05, how="time of the skipped steps"),
        link=link or Link(view=View.PRECISION, first_step=30, last_step=1050),
    )


DETAIL = """\
1 finding

head is the first to overflow in 3 of 3 steps.
found        tensor head (gradient); ranks 1
try          --bf16 – It has the range of fp32.
try          --clip 1.0 – If it grows, bound what it is updated by.
gain         up to 5.0 % of the time: time of the skipped steps
look         precision, steps 30 to 1,050 (overflow-in-one-tensor)

"""


def test_a_finding_says_what_was_found_what_to_try_and_what_it_brings(shown: Shown) -> None:
    assert shown(Group(*finding_list([finding()], counted=60))) == DETAIL


def test_trust_is_no_share_and_a_view_alone_is_a_link(shown: Shown) -> None:
    said = shown(
        Group(*finding_list([finding(GainKind.TRUST, link=Link(view=View.STEPS))] * 2, counted=9))
    )
    assert said.startswith("2 findings, the largest expected gain first\n")
    assert "gain         time of the skipped steps\n" in said
    assert "look         steps (overflow-in-one-tensor)\n" in said


def test_quiet_is_said_of_steps_and_of_no_steps_nothing(shown: Shown) -> None:
    assert shown(Group(*finding_list([], counted=57))) == "Nothing stands out in 57 steps.\n\n"
    assert finding_list([], counted=0) == []


def test_names_from_a_run_are_shown_and_never_obeyed(shown: Shown) -> None:
    said = shown(Group(*finding_list([finding(name=HOSTILE)], counted=60)))
    said += shown(Group(*finding_lines([finding(name=HOSTILE)])))
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "evil\\x1b[2J\\n[red]" in said


def test_every_rule_is_told_in_80_columns(shown):
    """Whatever a run sets off, its block fits and says where to look."""
    slow = everywhere(data_ns=21 * MS, wall_ns=120 * MS, clip_coefficient=0.5)
    found = find_all(facts_of(steps=slow, comm=everywhere(exposed_ns=15 * MS)))
    assert len(found) == 3
    text = shown(Group(*finding_list(found, counted=60)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("look  ") == 3


def test_a_gain_too_small_to_write_is_no_nought_per_cent():
    (finding, *_) = find_all(facts_of(steps=everywhere(data_ns=21 * MS, wall_ns=120 * MS)))
    little = replace(finding, gain=replace(finding.gain, share=0.0004))
    assert dict(finding_facts(little))["gain"].startswith("hardly any time: ")
