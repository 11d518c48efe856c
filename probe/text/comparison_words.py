"""The sentences that a comparison begins with: may these runs be compared, and what came out."""

from probe.analyse.compare.comparability import Judgement
from probe.analyse.compare.comparison import Pair
from probe.analyse.compare.measure import MeasureChange, Verdict
from probe.text.comparison_blocks import format_change, format_measure, measure_name
from probe.text.printable import printable
from probe.units import format_percent

_JUDGED = {
    Judgement.COMPARABLE: "COMPARABLE",
    Judgement.INTENDED_CHANGE: "INTENDED CHANGE",
    Judgement.NOT_COMPARABLE: "NOT COMPARABLE",
}


def judgement_sentence(pair: Pair) -> str:
    """COMPARABLE, INTENDED CHANGE or NOT COMPARABLE, and why."""
    word = _JUDGED[pair.comparability.judgement]
    reasons = ", ".join(pair.comparability.reasons)
    return f"{word}: {printable(reasons)}." if reasons else f"{word}."


def verdict_sentence(pair: Pair, *, material: float) -> str:
    """B is slower than A: step time 104 ms → 110 ms, +5.3 % (95 %: +4.1 … +6.5 %)."""
    item = pair.headline
    if item is None or item.change is None:
        return f"Nothing can be said of the speed of {pair.second}: too few steps count."
    ratio = item.change
    low, high = ((end - 1) * 100 for end in (ratio.low, ratio.high))
    values = f"{format_measure(item, item.first)} → {format_measure(item, item.second)}"
    figures = (
        f"{measure_name(item)} {values}, {format_change(item.relative)} "
        f"(95 %: {low:+.1f} … {high:+.1f} %)"
    )
    return f"{_judged(pair, item, material)}: {figures}."


def _judged(pair: Pair, item: MeasureChange, material: float) -> str:
    band = f"±{format_percent(material)}"
    if item.verdict is Verdict.SAME:
        return f"{pair.second} is as fast as {pair.first} within {band}"
    if item.verdict is Verdict.INCONCLUSIVE:
        return f"Inconclusive whether {pair.second} differs from {pair.first} by more than {band}"
    return f"{pair.second} is {item.verdict.value} than {pair.first}"
