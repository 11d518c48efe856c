"""What a cause takes of a step, and whether that is enough to speak of; the rules on time share
this.

Beside the share that a rule asks for, a cost is told only if

    five steps count or more,
    it is 0.1 ms a step or more: less is what waking a thread costs, which no setting changes,
    it is more than twice its own standard error: else a single step that waited for a minute,
    which fills any mean, would be told as what steps do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from probe.analyse.run_facts import RunFacts
from probe.analyse.statistics.standard_error import error_of_mean
from probe.analyse.steps.steps import Integers

LEAST_STEPS = 5
LEAST_NS = 100_000
LEAST_ERRORS = 2.0


class Exposed(Protocol):
    """Collectives or transfers that compute stood still for."""

    @property
    def exposed_ns(self) -> float: ...

    @property
    def exposed_error_ns(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Time of a usual step: the mean over the steps that count."""

    ns: float
    error_ns: float
    """Standard error of that mean."""

    def share_of(self, facts: RunFacts, *, least_share: float) -> float | None:
        """Its share of the step if that is worth telling, else None."""
        step_ns = facts.mean_step_ns
        if not step_ns or len(facts.counted) < LEAST_STEPS:
            return None
        told = (
            self.ns > least_share * step_ns
            and self.ns >= LEAST_NS
            and self.ns > LEAST_ERRORS * self.error_ns
        )
        return self.ns / step_ns if told else None


def cost_of_steps(spent_ns: Integers) -> Cost:
    """Of one time for each step that counts."""
    if not len(spent_ns):
        return Cost(ns=0.0, error_ns=0.0)
    return Cost(ns=float(spent_ns.mean()), error_ns=error_of_mean(spent_ns.astype(float)))


def cost_of_exposed(items: Iterable[Exposed]) -> Cost:
    """Of several that may all be late in the same steps: their errors add up."""
    listed = list(items)
    return Cost(
        ns=sum(item.exposed_ns for item in listed),
        error_ns=sum(item.exposed_error_ns for item in listed),
    )
