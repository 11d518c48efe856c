"""Where a run in progress stands, in a few numbers and one sentence."""

from probe.read.run import Run
from probe.schema.documents import Manifest
from probe.telling.following import Followed
from probe.text.overview_cards import Card
from probe.units import (
    MISSING,
    format_ago,
    format_duration,
    format_exact,
    format_number,
    format_percent,
    format_scale,
)


def live_cards(followed: Followed, manifest: Manifest) -> tuple[Card, ...]:
    """Progress, pace, loss and skips."""
    return (
        _progress(followed, manifest),
        Card(
            name="step time",
            value=format_duration(followed.median_wall_ns),
            remark=_last_step_time(followed),
        ),
        _loss(followed),
        _skips(followed),
    )


def freshness(followed: Followed, run: Run, *, now_ns: int) -> str:
    """When rows last came, and when a rank last gave a sign of life."""
    touched_s = [item.touched_s for item in run.evidence.values() if item.touched_s is not None]
    said = f"Updated {format_ago(followed.changed_ns, now_ns)}"
    if touched_s:
        said += f"; last sign of life {format_ago(int(max(touched_s) * 1e9), now_ns)}"
    return f"{said}."


def _progress(followed: Followed, manifest: Manifest) -> Card:
    last, expected = followed.last_step, manifest.expected_steps
    left = followed.left_ns(expected)
    done = "" if last is None or not expected else format_percent(min(1.0, (last + 1) / expected))
    ends = "" if left is None else f"{format_duration(left)} left"
    return Card(
        name="last step",
        value=MISSING if last is None else format_exact(last),
        remark=", ".join(filter(None, (done and f"{done} done", ends))),
    )


def _last_step_time(followed: Followed) -> str:
    if not len(followed.steps):
        return "no step has ended"
    return f"the last took {format_duration(float(followed.steps.wall_ns[-1]))}"


def _loss(followed: Followed) -> Card:
    training = followed.training
    stated = training.loss[training.has_loss]
    value = format_number(float(stated[-1])) if len(stated) else MISSING
    scales = training.scale[training.scale == training.scale]
    # A scale that is one throughout is the absence of a scale.
    remark = f"loss scale {format_scale(float(scales[-1]))}" if (scales != 1).any() else ""
    return Card(name="last loss", value=value, remark=remark)


def _skips(followed: Followed) -> Card:
    training = followed.training
    skipped = int((training.overflowed | training.without_gradient).sum())
    total = len(training)
    share = format_percent(skipped / total) if total else MISSING
    return Card(
        name="skipped steps",
        value=format_exact(skipped),
        remark=f"{share} of {format_exact(total)} steps",
    )
