"""The few numbers that a page about a run begins with, each beside what it should be judged by."""

from dataclasses import dataclass

from probe.analyse.run_facts import RunFacts
from probe.analyse.steps.headline import Headline
from probe.schema.vocabulary import Precision, Tier
from probe.units import (
    MISSING,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_percent,
    format_scale,
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """A number, its name in the dictionary of definitions, and a remark."""

    name: str
    value: str
    remark: str = ""


def overview_cards(headline: Headline, facts: RunFacts) -> tuple[Card, ...]:
    """In the order in which people ask."""
    return (
        _step_time(headline),
        _throughput(facts),
        _mfu(facts),
        _precision(facts),
        _memory(facts),
        _communication(facts),
        _skips(headline, facts),
        _useful(facts),
    )


def _step_time(headline: Headline) -> Card:
    count = headline.timed_steps
    remark = f"median of {format_exact(count)} steps" if count else "no step counts yet"
    return Card(name="step time", value=format_duration(headline.median_wall_ns), remark=remark)


def _throughput(facts: RunFacts) -> Card:
    rates = facts.throughput
    for rate, unit in ((rates.tokens_per_s, "tokens/s"), (rates.samples_per_s, "samples/s")):
        if rate is not None:
            remark = f"{format_count(rates.steps_per_s)} steps/s"
            return Card(name="throughput", value=f"{format_count(rate)} {unit}", remark=remark)
    return Card(name="throughput", value=MISSING, remark="the run tells neither tokens nor samples")


def _mfu(facts: RunFacts) -> Card:
    work = facts.work
    if work is None:
        why = "the run tells no size of model, or no tokens"
    elif work.mfu is None:
        why = "the peak of these devices is not known"
    else:
        remark = f"{format_count(work.flops_per_s)}FLOP/s of all ranks"
        return Card(name="MFU", value=format_percent(work.mfu), remark=remark)
    return Card(name="MFU", value=MISSING, remark=why)


def _precision(facts: RunFacts) -> Card:
    precision = facts.manifest.config.precision
    value = MISSING if precision is None else precision.value
    remarks = ["32-bit throughout"] if precision is Precision.FP32 else []
    share = facts.communication and facts.communication.sixteen_bit_share
    if share:
        remarks.append(f"{format_percent(share)} of the payload exchanged")
    if facts.scale is not None and precision is Precision.FP16:
        remarks.append(f"loss scale now {format_scale(facts.scale.scale_now)}")
    return Card(name="16-bit", value=value, remark="; ".join(remarks))


def _memory(facts: RunFacts) -> Card:
    memory = facts.memory
    if memory is None:
        return Card(name="peak memory", value=MISSING, remark="no memory was recorded")
    known = [
        line.theory_bytes
        for line in facts.memory_lines
        if line.tier is Tier.DEVICE and line.theory_bytes is not None
    ]
    remark = f"closed form {format_bytes(sum(known))}" if known else "no closed form for this run"
    return Card(name="peak memory", value=format_bytes(memory.peak.peak_bytes), remark=remark)


def _communication(facts: RunFacts) -> Card:
    comm = facts.communication
    if comm is None:
        return Card(name="exposed communication", value=MISSING, remark="nothing was exchanged")
    hidden = comm.overlap_share
    remark = "" if hidden is None else f"{format_percent(hidden)} of it is hidden"
    return Card(
        name="exposed communication", value=format_percent(comm.exposed_step_share), remark=remark
    )


def _skips(headline: Headline, facts: RunFacts) -> Card:
    total = headline.recorded_steps
    share = format_percent(headline.skipped_steps / total) if total else MISSING
    return Card(
        name="skipped steps",
        value=format_exact(headline.skipped_steps),
        remark=f"{share} of {format_exact(total)} recorded steps",
    )


def _useful(facts: RunFacts) -> Card:
    return Card(name="useful time", value=format_percent(facts.useful_share))
