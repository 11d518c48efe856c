"""The numbers of a run in progress."""

import pytest

from probe.analyse.series.step_series import step_series
from probe.analyse.series.training_series import training_series
from probe.analyse.steps.steps import counted_steps
from probe.schema.documents import Manifest
from probe.schema.rows import StepRow
from probe.schema.tables import STEPS
from probe.telling.following import Followed
from probe.text.live_cards import live_cards
from tests.analyse.hand_built import table_of


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
