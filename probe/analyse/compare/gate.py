"""A gate over a comparison: whether the conditions hold under which it fails.

A measured figure (step_time, throughput, exposed_time) fails only if its interval excludes the
threshold; conditions on measured figures are judged together by Holm's rule, so that ten gates cry
wolf no more often than one. It passes if the interval excludes the threshold on the good side, and
is inconclusive otherwise; an absolute threshold counts as its share of the first side. Counted
figures are compared as they stand. What a run does not tell cannot pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from probe.analyse.compare.change import CONFIDENCE, Change, adjusted
from probe.analyse.compare.comparability import Judgement
from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.conditions import Against, Condition
from probe.analyse.compare.measure import STATISTICAL, MeasureChange, Verdict, named


class Result(StrEnum):
    """What became of a condition."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class Exit(StrEnum):
    """How a comparison ends, by the gravest that was found."""

    OK = "ok"
    REGRESSION = "regression"
    NOT_COMPARABLE = "not_comparable"
    INCONCLUSIVE = "inconclusive"


EXIT_CODE = {
    Exit.OK: 0,
    Exit.REGRESSION: 1,
    Exit.NOT_COMPARABLE: 3,
    Exit.INCONCLUSIVE: 4,
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One condition on one pair."""

    pair: str
    condition: Condition
    result: Result
    found: float | None
    """What the threshold was held against: a share, a difference or a value. Of a measured figure
    always the share."""
    low: float | None
    """Lower end of the interval of that share; None for a counted figure."""
    high: float | None
    reason: str
    """Why nothing could be concluded; empty where the figures say it."""
    probability: float | None
    """Holm's adjusted p-value against "it does not fail"; None for a counted figure."""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The outcomes of all conditions on all pairs, and how the comparison ends."""

    outcomes: tuple[Outcome, ...]
    end: Exit

    @property
    def exit_code(self) -> int:
        """What the process ends with."""
        return EXIT_CODE[self.end]


def judge(
    comparison: Comparison, conditions: Sequence[Condition], *, strict: bool = False
) -> GateReport:
    """Every condition on every pair; with `strict`, what is inconclusive ends so.

    Without conditions, `strict` asks that the headline of each pair be conclusive.
    """
    tests = [(pair, condition) for pair in comparison.pairs for condition in conditions]
    probabilities = {
        index: chance
        for index, (pair, condition) in enumerate(tests)
        if (chance := _chance(named(pair.measures, condition.measure), condition)) is not None
    }
    holm = dict(zip(probabilities, adjusted(list(probabilities.values())), strict=True))
    outcomes = tuple(
        _outcome(pair, condition, holm.get(index)) for index, (pair, condition) in enumerate(tests)
    )
    return GateReport(
        outcomes=outcomes, end=_end(comparison, outcomes, asked=bool(conditions), strict=strict)
    )


def _end(comparison: Comparison, outcomes: Sequence[Outcome], *, asked: bool, strict: bool) -> Exit:
    void = Judgement.NOT_COMPARABLE
    if any(pair.comparability.judgement is void for pair in comparison.pairs):
        return Exit.NOT_COMPARABLE
    results = {item.result for item in outcomes}
    if Result.FAILED in results:
        return Exit.REGRESSION
    open_ends = Result.INCONCLUSIVE in results or (
        not asked and not all(map(_is_settled, comparison.pairs))
    )
    return Exit.INCONCLUSIVE if strict and open_ends else Exit.OK


def _is_settled(pair: Pair) -> bool:
    return pair.headline is not None and pair.headline.verdict not in (
        Verdict.INCONCLUSIVE,
        Verdict.UNKNOWN,
    )


def _ratio(item: MeasureChange, condition: Condition) -> float | None:
    """The ratio B/A at which the condition begins to hold; None if there is none."""
    if condition.against is Against.RELATIVE:
        return 1 + condition.threshold
    assert item.first
    wanted = condition.threshold
    if condition.against is Against.DIFFERENCE:
        wanted += item.first
    return wanted / item.first if wanted > 0 else None


def _chance(item: MeasureChange | None, condition: Condition) -> float | None:
    """The p-value against "the condition does not hold"; None for what has no interval."""
    if item is None or item.change is None:
        return None
    ratio = _ratio(item, condition)
    if ratio is None:
        return 0.0 if condition.above else 1.0
    change = item.change
    return change.probability_at_least(ratio) if condition.above else change.probability_at_most(
        ratio
    )  # fmt: skip


def _outcome(pair: Pair, condition: Condition, probability: float | None) -> Outcome:
    item = named(pair.measures, condition.measure)
    found = low = high = None
    reason = ""
    if item is None or item.first is None or item.second is None:
        result, reason = Result.INCONCLUSIVE, "a run does not tell it"
    elif item.change is not None and probability is not None:
        change = item.change
        found, low, high = change.ratio - 1, change.low - 1, change.high - 1
        result = _measured(change, _ratio(item, condition), condition, probability)
    elif condition.measure in STATISTICAL and item.first != item.second:
        result, reason = Result.INCONCLUSIVE, "it has no interval here"
    else:
        found = _found(item.first, item.second, condition.against)
        result = _counted(found, condition)
    return Outcome(
        pair=f"{pair.first}-{pair.second}",
        condition=condition,
        result=result,
        found=found,
        low=low,
        high=high,
        reason=reason,
        probability=probability,
    )


def _measured(
    change: Change, ratio: float | None, condition: Condition, probability: float
) -> Result:
    if probability < (1 - CONFIDENCE) / 2:
        return Result.FAILED
    if ratio is None:
        return Result.INCONCLUSIVE if condition.above else Result.PASSED
    passed = change.high < ratio if condition.above else change.low > ratio
    return Result.PASSED if passed else Result.INCONCLUSIVE


def _found(first: float, second: float, against: Against) -> float:
    if against is Against.VALUE:
        return second
    if against is Against.DIFFERENCE:
        return second - first
    if first:
        return second / first - 1
    # From nothing, any more is beyond every share of it.
    return math.copysign(math.inf, second) if second else 0.0


def _counted(found: float, condition: Condition) -> Result:
    if math.isnan(found):
        return Result.FAILED
    # Exactly 6 % more is 0.06 and a rounding error: that is on the threshold, not beyond it.
    if math.isclose(found, condition.threshold, rel_tol=1e-9, abs_tol=1e-12):
        fails = condition.inclusive
    else:
        fails = (found > condition.threshold) is condition.above
    return Result.FAILED if fails else Result.PASSED
