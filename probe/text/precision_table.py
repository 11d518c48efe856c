"""The loss scale, the steps that were skipped and the range of the gradients, in a few lines."""

from rich.text import Text

from probe.analyse.precision.loss_scale import ScaleHistory
from probe.analyse.precision.overflows import Origin
from probe.analyse.precision.skips import Skips
from probe.analyse.run_facts import RunFacts
from probe.text.facts_grid import NAMES
from probe.text.printable import printable
from probe.units import format_duration, format_exact, format_percent, format_scale

MOST_STRETCHES = 6


def precision_table(facts: RunFacts) -> list[Text]:
    """Nothing for a run that scales no loss, skips no step and sampled no gradient."""
    told = precision_facts(facts)
    return [Text.assemble((f"{name:<{NAMES}}  ", "dim"), text) for name, text in told]


def precision_facts(facts: RunFacts) -> list[tuple[str, str]]:
    """The same as names and plain texts, for whoever draws them otherwise."""
    lines: list[tuple[str, str]] = []
    scale = facts.scale
    # A scale that is one throughout is the absence of a scale.
    if scale is not None and (scale.lowest, scale.highest) != (1.0, 1.0):
        lines.append(("scale", _scale(scale)))
    if facts.skips.overflows or facts.skips.without_gradient:
        lines.append(("skips", _skips(facts.skips)))
    if facts.origins:
        lines.append(("began in", _origin(facts.origins[0])))
    if facts.gradients is not None:
        fit = facts.gradients.together
        room = "" if fit.headroom_powers is None else f", {fit.headroom_powers:.1f} powers of room"
        lines.append(
            (
                "gradients",
                f"{format_percent(fit.underflow_share)} underflow, "
                f"{format_percent(fit.subnormal_share)} subnormal{room}",
            )
        )
    if facts.clipping is not None and facts.clipping.clipped:
        lines.append(("clipped", f"{format_percent(facts.clipping.share)} of the steps"))
    return lines


def _origin(origin: Origin) -> str:
    """The tensor, how often it was the first, and where."""
    ranks = ", ".join(map(str, origin.ranks))
    places = [f"rank{'s' if len(origin.ranks) > 1 else ''} {ranks}"]
    if origin.micro_batches:
        numbers = ", ".join(map(str, origin.micro_batches))
        places.append(f"micro-batch{'es' if len(origin.micro_batches) > 1 else ''} {numbers}")
    share = format_percent(origin.share)
    return f"{printable(origin.name, limit=60)} on {', '.join(places)} ({share} of the overflows)"


def _scale(scale: ScaleHistory) -> str:
    shown = scale.stretches[-MOST_STRETCHES:]
    before = "… " if len(scale.stretches) > len(shown) else ""
    told = [f"{format_scale(item.scale)} for {format_exact(item.steps)}" for item in shown]
    return f"{before}{', '.join(told)} step{'s' if shown[-1].steps > 1 else ''}"


def _skips(skips: Skips) -> str:
    told = [
        f"{format_exact(count)} {what}"
        for count, what in (
            (skips.startup_overflows, "overflows at the start"),
            (skips.later_overflows, "later"),
            (skips.without_gradient, "without a gradient"),
        )
        if count
    ]
    lost = f"{format_duration(skips.lost_ns)} lost ({format_percent(skips.lost_time_share)})"
    return f"{', '.join(told)}; {lost}"
