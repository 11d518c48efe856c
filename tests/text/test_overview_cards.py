"""The cards of the overview, on the recordings that come with the project."""

from pathlib import Path

import pytest

from probe.telling.run import open_readable, tell
from probe.text.overview_cards import overview_cards

SAMPLES = Path(__file__).parents[2] / "sample_runs"


@pytest.mark.parametrize(
    ("name", "value", "remark"),
    [
        ("fp32-stage0", "fp32", "32-bit throughout"),
        ("bf16-stage3", "bf16", "100.0 % of the payload exchanged"),
        ("fp16-stage2-overflow", "fp16", "100.0 % of the payload exchanged; loss scale now 2^20"),
    ],
)
def test_what_is_16_bit(name: str, value: str, remark: str) -> None:
    told = tell(open_readable(SAMPLES / name))
    card = next(card for card in overview_cards(told.headline, told.facts) if card.name == "16-bit")
    assert (card.value, card.remark) == (value, remark)
