"""What computes, communicates or copies in a trace, and when.

On a device: kernels compute, those of a collectives library communicate, copies and fills (and
kernels named so) are memcpy. Without a device: an operator computes while it is open on its thread
and no operator of torch.distributed is open inside it; `gloo:*` annotations, on whatever thread,
communicate; nothing is memcpy.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.trace.intervals import EMPTY, Intervals, merge, subtract, union
from probe.read.trace import NONE, Events, Mask, Trace
from probe.schema.vocabulary import TraceCategory

_DEVICE = (TraceCategory.KERNEL, TraceCategory.COPY, TraceCategory.FILL)
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl|msccl|oneccl|xccl|hccl)", re.IGNORECASE)
_MEMORY_KERNEL = re.compile(r"(Memcpy|Memset|dma)")
_COLLECTIVE_ANNOTATION = re.compile(r"(gloo|mpi|ucc|nccl|xccl):")
COLLECTIVE_OPERATOR = re.compile(
    r"(c10d::|_?c10d_functional::|gloo:|mpi:|ucc:|nccl:|record_param_comms)"
)


class ActivityKind(StrEnum):
    """What a kernel is for."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    MEMCPY = "memcpy"


@dataclass(frozen=True, kw_only=True)
class Activity:
    """When a trace computed, communicated and copied."""

    on_device: bool
    """False where operators stand in for kernels."""
    computation: Intervals
    communication: Intervals
    memcpy: Intervals

    @property
    def busy(self) -> Intervals:
        """When any of them went on."""
        return union(self.computation, self.communication, self.memcpy)


def has_device(trace: Trace) -> bool:
    """Whether anything ran on a device."""
    return bool(device_events(trace).any())


def device_events(trace: Trace) -> Mask:
    """Kernels, copies and fills."""
    return trace.events.of(*_DEVICE)


def kernel_kinds(trace: Trace) -> dict[ActivityKind, Mask]:
    """Device events by kind; each is of one."""
    events = trace.events
    kernels = events.of(TraceCategory.KERNEL)
    library = matches(trace, _COLLECTIVE_KERNEL) | (events.collective != NONE)
    communicates = kernels & library
    copies = kernels & ~library & matches(trace, _MEMORY_KERNEL)
    return {
        ActivityKind.COMPUTATION: kernels & ~communicates & ~copies,
        ActivityKind.COMMUNICATION: communicates,
        ActivityKind.MEMCPY: events.of(TraceCategory.COPY, TraceCategory.FILL) | copies,
    }


def matches(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    """Events whose name begins with a pattern."""
    fits = np.array([pattern.match(name) is not None for name in trace.names] or [False])
    return fits[trace.events.name]


def collective_annotations(trace: Trace) -> Mask:
    """Annotations that a backend puts around a collective."""
    return trace.events.of(TraceCategory.ANNOTATION) & matches(trace, _COLLECTIVE_ANNOTATION)


def find_activity(trace: Trace) -> Activity:
    """All activity of a trace."""
    events = trace.events
    if has_device(trace):
        kinds = kernel_kinds(trace)
        return Activity(
            on_device=True,
            computation=covered(events, kinds[ActivityKind.COMPUTATION]),
            communication=covered(events, kinds[ActivityKind.COMMUNICATION]),
            memcpy=covered(events, kinds[ActivityKind.MEMCPY]),
        )
    operators = events.of(TraceCategory.OPERATOR)
    of_collectives = operators & matches(trace, COLLECTIVE_OPERATOR)
    computing = [EMPTY]
    for lane in np.unique(events.lane[operators]):
        here = operators & (events.lane == lane)
        open_here = covered(events, here & ~of_collectives)
        computing.append(subtract(open_here, covered(events, here & of_collectives)))
    return Activity(
        on_device=False,
        computation=union(*computing),
        communication=covered(events, collective_annotations(trace)),
        memcpy=EMPTY,
    )


def covered(events: Events, chosen: Mask) -> Intervals:
    """When at least one of the chosen events was open."""
    starts = events.start_ns[chosen]
    return merge(starts, starts + events.duration_ns[chosen])
