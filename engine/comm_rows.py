"""The collectives of a step as rows: added up by phase, operation and type, or each by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.facts import CollectiveFacts
from engine.tracing import covered_ns
from probe.schema.rows import CommCallRow, CommRow
from probe.schema.vocabulary import CollectiveOp, Phase

_Key = tuple[Phase, CollectiveOp, str]


@dataclass(kw_only=True)
class _Sum:
    """All collectives of one kind in one phase of a step."""

    calls: int = 0
    logical_bytes: int = 0
    wire_bytes: int = 0
    exposed_ns: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)


class CommRows:
    """Makes the rows of one rank in its group."""

    def __init__(self, world: int, backend_op: Callable[[CollectiveOp], CollectiveOp]) -> None:
        self._world = world
        self._backend_op = backend_op

    def sums(self, step: int, calls: Sequence[CollectiveFacts]) -> list[CommRow]:
        """A row for each phase, operation and type, in the order of their first."""
        return [
            CommRow(
                step=step,
                phase=phase,
                op=op,
                wire_op=self._backend_op(op),
                group_size=self._world,
                dtype=dtype,
                calls=total.calls,
                logical_bytes=total.logical_bytes,
                wire_bytes=total.wire_bytes,
                busy_ns=covered_ns(total.intervals),
                exposed_ns=total.exposed_ns,
            )
            for (phase, op, dtype), total in _sums_of(calls).items()
        ]

    def calls(self, step: int, calls: Sequence[CollectiveFacts]) -> list[CommCallRow]:
        """A row for each of them."""
        return [
            CommCallRow(
                step=step,
                sequence=facts.sequence,
                phase=facts.phase,
                op=facts.op,
                wire_op=self._backend_op(facts.op),
                group_size=self._world,
                dtype=facts.dtype,
                block=facts.block,
                logical_bytes=facts.logical_bytes,
                wire_bytes=facts.wire_bytes,
                enqueue_ns=facts.launched_ns,
                # Not the launch: what lies between is this rank's own work, and its end is only
                # seen once it is waited for, so a slow rank would seem to wait for itself.
                start_ns=facts.wait_began_ns,
                end_ns=facts.done_ns,
                exposed_ns=facts.exposed_ns,
            )
            for facts in calls
        ]


def _sums_of(calls: Sequence[CollectiveFacts]) -> dict[_Key, _Sum]:
    sums: dict[_Key, _Sum] = {}
    for call in calls:
        key = call.phase, call.op, call.dtype
        total = sums.get(key)
        if total is None:
            total = sums[key] = _Sum()
        total.calls += 1
        total.logical_bytes += call.logical_bytes
        total.wire_bytes += call.wire_bytes
        total.exposed_ns += call.done_ns - call.wait_began_ns
        total.intervals.append((call.launched_ns, call.done_ns))
    return sums
