"""The numbers that a page begins with."""

import pytest

from probe.analyse.run_facts import RunFacts
from probe.analyse.series.step_series import step_series
from probe.analyse.series.training_series import training_series
from probe.analyse.steps.headline import summarise_run
from probe.analyse.steps.steps import counted_steps
from probe.schema.documents import Manifest
from probe.schema.rows import StepRow
from probe.schema.tables import COMM, MEMORY, STEPS
from probe.schema.vocabulary import Precision
from probe.telling.following import Followed
from probe.text.live_cards import live_cards
from probe.text.overview_cards import Card, overview_cards
from tests.analyse.hand_built import table_of
from tests.analyse.made_run import configured, everywhere, facts_of


def sixteen_bit(facts: RunFacts) -> Card:
    nothing = {table: table_of(table, {}) for table in (STEPS, MEMORY, COMM)}
    headline = summarise_run(steps=nothing[STEPS], memory=nothing[MEMORY], comm=nothing[COMM])
    (found,) = (card for card in overview_cards(headline, facts) if card.name == "16-bit")
    return found


def test_sixteen_bit_is_a_share_of_what_was_sent() -> None:
    told = sixteen_bit(facts_of(comm=everywhere(dtype="fp16")))
    assert told.value == "100.0 %"
    assert told.remark == "of the bytes sent, run in fp16; loss scale now 2^16"


def test_sixteen_bit_names_the_precision_where_nobody_tells_what_was_sent() -> None:
    assert sixteen_bit(facts_of(comm=everywhere(dtype=""))).value == "fp16"
    plain = configured(precision=Precision.FP32)
    told = sixteen_bit(facts_of(plain, comm=everywhere(wire_bytes=0)))
    assert (told.value, told.remark) == ("fp32", "32-bit throughout")


@pytest.mark.parametrize(("scale", "remark"), [(1.0, ""), (65536.0, "loss scale 2^16")])
def test_a_loss_scale_of_one_is_none(scale: float, remark: str) -> None:
    rows = [StepRow(step=0, begin_ns=0, wall_ns=1000, loss=2.5, loss_scale=scale)]
    steps = table_of(STEPS, {0: rows})
    followed = Followed(
        steps=step_series(steps, counted_steps(steps)),
        training=training_series(steps),
        median_wall_ns=None,
        problems=(),
        version=1,
        changed_ns=0,
    )
    (loss,) = (card for card in live_cards(followed, Manifest()) if card.name == "last loss")
    assert loss.remark == remark
