"""One visual language: what is different looks different, on both grounds, not by colour alone."""

from itertools import combinations

import pytest

from probe.figures.palette import (
    MEMORY,
    OPERATIONS,
    PHASES,
    TIERS,
    all_looks,
    ink_on,
    luminance,
    rank_look,
    run_look,
)
from probe.figures.theme import GROUND, INK, Mode, template
from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase, Tier


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_word_of_the_vocabulary_has_a_look() -> None:
    assert set(PHASES) == set(Phase)
    assert set(MEMORY) == set(MemoryCategory)
    assert set(OPERATIONS) == set(CollectiveOp)
    assert set(TIERS) == set(Tier)


@pytest.mark.parametrize("looks", [PHASES, MEMORY, OPERATIONS], ids=["phase", "memory", "op"])
def test_looks_of_one_kind_differ(looks) -> None:
    for one, other in combinations(looks.values(), 2):
        assert one.colour != other.colour


def test_no_two_runs_or_ranks_have_the_same_colour_dash_or_mark() -> None:
    for look in (run_look, rank_look):
        assert len({look(place).colour for place in range(8)}) == 8
        assert len({look(place).dash for place in range(8)}) == 8
        assert len({look(place).symbol for place in range(8)}) == 8


@pytest.mark.parametrize("mode", list(Mode))
def test_every_colour_is_seen_on_every_ground(mode) -> None:
    faint = {
        name: round(contrast(look.colour, GROUND[mode]), 2)
        for name, look in all_looks().items()
        if contrast(look.colour, GROUND[mode]) < 2.2
    }
    assert not faint


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("mode", list(Mode))
def test_lines_are_seen_better_still(place, mode) -> None:
    assert contrast(run_look(place).colour, GROUND[mode]) >= 3


@pytest.mark.parametrize("mode", list(Mode))
def test_text_is_read(mode) -> None:
    assert contrast(INK[mode], GROUND[mode]) >= 7
    assert template(mode).layout.paper_bgcolor == GROUND[mode]
    for name, look in all_looks().items():
        assert contrast(ink_on(look.colour), look.colour) >= 4, name
