"""What to look at next after a comparison: a few sentences, each for a reason in its numbers."""

from collections.abc import Iterator

from probe.analyse.compare.comparison import Pair
from probe.analyse.compare.measure import MeasureChange, Outcome, Verdict, named
from probe.schema.vocabulary import Phase
from probe.units import format_percent

MOST_LOOKS = 5
LEADING_SHARE = 0.5
"""A phase is named if it carries at least this share of the difference."""
MATERIAL_MEMORY = 0.02

_WHERE = {
    Phase.DATA: "the loader: workers, prefetch, storage",
    Phase.FORWARD: "the operators of the forward pass in a profiled window of each",
    Phase.BACKWARD: "the operators of the backward pass, and recomputation",
    Phase.GATHER_WAIT: "prefetch and the sizes of gathered blocks",
    Phase.REDUCE_WAIT: "bucket sizes and the slowest rank",
    Phase.OPTIMIZER: "the update: fused or not, on device or host",
    Phase.OFFLOAD_WAIT: "the link to host or disk, and what is moved over it",
    Phase.CHECKPOINT: "how often and where checkpoints are written",
    Phase.OTHER: "code between the phases: logging, evaluation, synchronisation",
}


def next_looks(pair: Pair) -> tuple[str, ...]:
    """At most five, the most telling first."""
    found = (sentence for rule in _RULES for sentence in rule(pair))
    return tuple(sentence for sentence, _ in zip(found, range(MOST_LOOKS), strict=False))


def _more_evidence(pair: Pair) -> Iterator[str]:
    item = pair.headline
    if item is None or item.verdict is not Verdict.INCONCLUSIVE or item.change is None:
        return
    name = item.name.replace("_", " ")
    if item.change.more_steps is not None:
        yield f"About {item.change.more_steps:,} more steps a run would settle {name}."
    elif item.change.more_runs is not None:
        yield f"About {item.change.more_runs} more runs a side would settle {name}."
    else:
        yield (
            f"The change of {name} lies on the edge of the band: more of the same will not settle "
            "it. Ask whether so little matters (--material)."
        )


def _leading_phase(pair: Pair) -> Iterator[str]:
    fall, item = pair.waterfall, pair.headline
    if fall is None or item is None or item.outcome is Outcome.NEUTRAL:
        return
    total = fall.second_ns - fall.first_ns
    leading = max(fall.phases, key=lambda part: abs(part.delta_ns))
    if total and leading.delta_ns / total >= LEADING_SHARE:
        share = leading.delta_ns / total
        name = leading.phase.replace("_", " ").capitalize()
        yield f"{name} makes {format_percent(share)} of the difference: {_WHERE[leading.phase]}."


def _skips(pair: Pair) -> Iterator[str]:
    item = named(pair.measures, "skipped")
    if item is not None and item.verdict is Verdict.MORE:
        yield f"{pair.second} skips more steps: `probe show` tells which tensor overflowed."


def _losses(pair: Pair) -> Iterator[str]:
    losses = pair.losses
    if losses is None or losses.first_apart_step is None:
        return
    names = {item.name for item in pair.comparability.differences}
    reason = "seeds differ" if any(name.startswith("seeds.") for name in names) else ""
    if not reason and "config.precision" in names:
        reason = "precision differs"
    because = f" ({reason})" if reason else ": nothing that differs by intent explains it"
    if reason or not pair.comparability.differences:
        yield f"Losses are apart from step {losses.first_apart_step} on{because}."


def _memory(pair: Pair) -> Iterator[str]:
    peak = named(pair.measures, "peak_memory")
    if peak is None or not _is_material(peak) or not pair.memory:
        return
    grown = max(
        pair.memory, key=lambda item: abs((item.second_bytes or 0) - (item.first_bytes or 0))
    )
    if grown.category is not None:
        name = f"{grown.tier} {grown.category}".replace("_", " ")
        yield f"Memory moved most in {name}."


def _is_material(item: MeasureChange) -> bool:
    return item.relative is not None and abs(item.relative) > MATERIAL_MEMORY


_RULES = (_more_evidence, _leading_phase, _skips, _losses, _memory)
