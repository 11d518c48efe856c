"""Which charts tell of a run: those whose facts it recorded, in the order of the views."""

from collections.abc import Iterator, Sequence

from probe.analyse.run_facts import RunFacts
from probe.analyse.series.run_series import RunSeries
from probe.analyse.series.within import StepRange
from probe.analyse.trace.breakdown import Breakdown
from probe.analyse.trace.lanes import TraceLanes
from probe.figures import communication, memory, numerics, offload, ranks, scale, steps, trace
from probe.figures.chart import Chart
from probe.schema.vocabulary import Tier

MOST_HISTOGRAMS = 2


def step_charts(facts: RunFacts, series: RunSeries) -> Iterator[Chart]:
    """Where the time went."""
    if facts.phases:
        yield Chart(figure=steps.phase_shares(facts.phases), wide=True)
    if len(series.steps):
        yield Chart(figure=steps.phases_by_step(series.steps), wide=True)
        yield Chart(figure=steps.step_times(series.steps), wide=True)


def precision_charts(
    facts: RunFacts, series: RunSeries, *, steps: StepRange | None = None
) -> Iterator[Chart]:
    """What the loss scale did and why, and how values fit their types, in the steps looked at."""
    gradients = facts.gradients
    if gradients is not None and steps is not None:
        gradients = gradients.between(steps.first, steps.last)
    training = series.training
    if training.has_loss.any() or training.has_grad_norm.any() or facts.scale is not None:
        yield Chart(figure=scale.training_story(training), wide=True)
    for histogram in series.exponents[:MOST_HISTOGRAMS]:
        yield Chart(figure=numerics.exponent_histogram(histogram))
    if gradients is not None and len(gradients.by_step) > 1:
        yield Chart(figure=numerics.underflow_over_time(gradients))
    if series.underflow is not None and series.underflow.sampled:
        yield Chart(figure=numerics.underflow_heatmap(series.underflow))
    if facts.lost_updates is not None and facts.lost_updates.elements:
        yield Chart(figure=numerics.lost_updates_by_parameter(facts.lost_updates))


def memory_charts(
    facts: RunFacts, series: RunSeries, *, rank: int | None = None
) -> Iterator[Chart]:
    """What memory was held for, over time on one rank: the fullest, unless another is asked for."""
    yield from peak_charts(facts, series)
    yield from ledger_charts(facts, series, rank=rank)


def peak_charts(facts: RunFacts, series: RunSeries) -> Iterator[Chart]:
    """The peak of the fullest rank beside its closed form, and the peaks of all ranks.

    Peaks are those of the whole run, so the series must be whole too.
    """
    use = facts.memory
    if use is None:
        return
    if facts.memory_lines:
        yield Chart(figure=memory.memory_at_peak(facts.memory_lines, use.peak))
    if len(use.rank_peak_bytes) > 1 and any(use.rank_peak_bytes.values()):
        yield Chart(figure=memory.memory_by_rank(use, series.memory))


def ledger_charts(
    facts: RunFacts, series: RunSeries, *, rank: int | None = None
) -> Iterator[Chart]:
    """Memory over time on one rank, tier by tier; nothing if it tells of none of the steps."""
    use = facts.memory
    if use is None:
        return
    one = series.memory[use.peak.rank if rank is None else rank]
    if not len(one):
        return
    if one.on(Tier.DEVICE) or one.allocated_bytes is not None:
        yield Chart(figure=memory.memory_over_time(one), wide=True)
    for tier in (Tier.HOST, Tier.DISK):
        if one.on(tier):
            yield Chart(figure=memory.memory_over_time(one, tier=tier), wide=True)


def communication_charts(facts: RunFacts, series: RunSeries) -> Iterator[Chart]:
    """What ranks exchange and who waits for whom."""
    yield from exchange_charts(facts)
    yield from rank_charts(facts, series)


def exchange_charts(facts: RunFacts) -> Iterator[Chart]:
    """How fast the exchange is, how much of it is exposed, and how much there should be."""
    comm = facts.communication
    if comm is not None and comm.busy_ns:
        yield Chart(figure=communication.exposed_and_hidden(comm))
        yield Chart(figure=communication.bandwidths(comm))
    if facts.traffic_lines:
        yield Chart(figure=communication.traffic_beside_closed_form(facts.traffic_lines))
    if comm is not None and any(item.bytes_per_call for item in comm.operations):
        yield Chart(figure=communication.message_sizes(comm))


def rank_charts(facts: RunFacts, series: RunSeries) -> Iterator[Chart]:
    """Who waits for whom."""
    if series.waits is not None:
        yield Chart(figure=ranks.wait_heatmap(series.waits), wide=True)
    if facts.balance is not None:
        yield Chart(figure=ranks.rank_ranking(facts.balance, facts.waiting), wide=True)


def offload_charts(facts: RunFacts, series: RunSeries) -> Iterator[Chart]:
    """What moves between device, host and disk."""
    if series.offload is not None and len(series.offload.step):
        yield Chart(figure=offload.offload_over_time(series.offload))
    if facts.offload is not None:
        yield Chart(figure=offload.offload_routes(facts.offload))


def window_charts(
    windows: Sequence[TraceLanes], breakdowns: Sequence[tuple[str, Breakdown]]
) -> Iterator[Chart]:
    """The profiled window."""
    if windows:
        yield Chart(figure=trace.lanes_of_ranks(windows), wide=True)
    if breakdowns:
        yield Chart(figure=trace.window_breakdown(breakdowns), wide=True)
