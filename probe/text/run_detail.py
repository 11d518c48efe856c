"""One run in detail: what it was, how far it came, its headline numbers and its tables."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from probe.analyse.steps.headline import Headline, Peak
from probe.read.problem import Problem
from probe.read.run import Run
from probe.schema.documents import Manifest, RunConfig
from probe.schema.vocabulary import Precision, Tier
from probe.text.aligned import align, with_heading
from probe.text.facts_grid import LONGEST_TEXT, NAMES, facts_grid
from probe.text.gaps import gap_sentences
from probe.text.marks import STATUS_STYLE
from probe.text.printable import printable
from probe.text.problem_list import describe_problems
from probe.units import (
    format_ago,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_moment,
    format_number,
)

MOST_ITEMS = 8


def run_detail(
    run: Run,
    headline: Headline,
    *,
    analysis: Sequence[RenderableType],
    table_rows: Mapping[str, int],
    problems: Sequence[Problem],
    now_ns: int,
) -> RenderableType:
    """Everything that fits a screen; problems are counted here and listed by `probe doctor`."""
    manifest = run.manifest
    status = Text(run.verdict.status, style=STATUS_STYLE[run.verdict.status])
    title = Text.assemble((printable(run.name), "bold"), "  ", status, "  ", overflow="fold")
    title.append(printable(run.verdict.why, limit=LONGEST_TEXT), style="dim")
    parts: list[RenderableType] = [
        title,
        Text(),
        facts_grid([*identity(run, manifest, now_ns)]),
        Text(),
        facts_grid([*figures(manifest, headline)]),
        Text(),
        *analysis,
        *_tables(table_rows),
        *(Text(said, style="yellow", overflow="fold") for said in _gaps(run, headline, table_rows)),
    ]
    if problems:
        remark = f"{describe_problems(problems)}; `probe doctor` shows what and where."
        parts += [Text(), Text(remark, style="yellow")]
    return Group(*parts)


def _gaps(run: Run, headline: Headline, table_rows: Mapping[str, int]) -> list[str]:
    """Told apart from the tables by an empty line."""
    said = gap_sentences(run, headline, dict(table_rows))
    return ["", *said] if said else []


def identity(run: Run, manifest: Manifest, now_ns: int) -> Iterator[tuple[str, str]]:
    """What the run was, as names and texts; what it does not tell is empty."""
    config, model = manifest.config, manifest.model
    if manifest.name and manifest.name not in run.name:
        yield "name", manifest.name
    setup = [config.precision.value] if config.precision else []
    setup += [] if config.stage is None else [f"ZeRO stage {config.stage}"]
    setup += _offloaded(config)
    yield "setup", ", ".join(setup)
    yield "world", ", ".join(_world(run, manifest))
    if model.param_elements is not None:
        name = f"{model.name}, " if model.name else ""
        yield "model", f"{name}{format_count(model.param_elements)} parameters"
    else:
        yield "model", model.name
    yield "started", _times(manifest, now_ns)
    if manifest.resumed_from:
        yield "resumed", f"from {manifest.parent or manifest.resumed_from}"
    yield "command", shlex.join(manifest.command)
    yield "code", _code(manifest)
    versions = [f"{name} {version}" for name, version in manifest.versions.items()]
    yield "versions", _some(versions)
    yield "tags", _some(manifest.tags)
    yield "notes", manifest.notes
    for hang in manifest.hangs[-MOST_ITEMS:]:
        yield "hang", hang.message
    for sentence in manifest.lost[:MOST_ITEMS]:
        yield "lost", sentence


def _offloaded(config: RunConfig) -> list[str]:
    """What rests off the device, and where."""
    tiers = {"optimizer": config.offload_optimizer, "parameters": config.offload_params}
    return [f"{what} on {tier}" for what, tier in tiers.items() if tier is not Tier.DEVICE]


def _world(run: Run, manifest: Manifest) -> Iterator[str]:
    count, expected = len(run.ranks), manifest.world_size
    of = f" of {format_count(expected)}" if count < expected else ""
    yield f"{format_count(count)}{of} rank{'s' if max(count, expected) != 1 else ''}"
    hosts = {header.host for header in run.headers.values() if header.host}
    if hosts:
        yield f"on {_some(sorted(hosts))}"
    devices = [f"{item.count}× {item.name or item.kind}" for item in manifest.devices]
    if devices:
        yield _some(devices)
    if manifest.backend:
        yield manifest.backend


def _times(manifest: Manifest, now_ns: int) -> str:
    if manifest.started_ns is None:
        return ""
    started = f"{format_moment(manifest.started_ns)}, {format_ago(manifest.started_ns, now_ns)}"
    if manifest.ended_ns is None:
        return started
    return f"{started}; took {format_duration(max(0, manifest.ended_ns - manifest.started_ns))}"


def _code(manifest: Manifest) -> str:
    git = manifest.git
    if not git.commit:
        return manifest.script
    changed = ", with changes" if git.dirty else ""
    branch = f" on {git.branch}" if git.branch else ""
    return f"{manifest.script or 'commit'} at {git.commit[:12]}{branch}{changed}"


def figures(manifest: Manifest, headline: Headline) -> Iterator[tuple[str, str]]:
    """The headline as names and texts."""
    expected = manifest.expected_steps
    steps = format_exact(headline.recorded_steps)
    steps += f" of {format_exact(expected)}" if expected is not None else ""
    skipped = format_exact(headline.skipped_steps)
    profiled = f", {headline.profiled_steps} profiled" if headline.profiled_steps else ""
    yield "steps", f"{steps} recorded, {skipped} skipped{profiled}"
    if headline.median_wall_ns is not None:
        over = format_exact(headline.timed_steps)
        wall = format_duration(headline.median_wall_ns)
        yield "step time", f"{wall} on the slowest rank (median of {over} steps)"
    if headline.last_loss is not None:
        step = format_exact(headline.last_loss_step)
        yield "last loss", f"{format_number(headline.last_loss)} in step {step}"
    unscaled = (Precision.FP32, Precision.BF16, Precision.AMP_BF16)
    scaled = manifest.config.precision not in unscaled
    if headline.loss_scale is not None and (scaled or headline.loss_scale != 1):
        yield "loss scale", format_number(headline.loss_scale)
    yield "device peak", _peak(headline.peak_device)
    yield "host peak", _peak(headline.peak_rss)
    if headline.wire_bytes is not None:
        sent = format_bytes(headline.wire_bytes)
        yield "traffic", f"{sent} sent a step by the busiest rank (median)"


def _peak(peak: Peak | None) -> str:
    return "" if peak is None else f"{format_bytes(peak.peak_bytes)} on rank {peak.rank}"


def _tables(table_rows: Mapping[str, int]) -> list[Text]:
    rows = [(f"{name:<{NAMES}}", format_exact(rows)) for name, rows in table_rows.items() if rows]
    if not rows:
        return [Text("No table has rows.")]
    heading = (f"{'table':<{NAMES}}", "rows")
    return with_heading(align([heading, *rows], right=(1,)), "dim")


def _some(items: Sequence[str]) -> str:
    """The first few of a list, and how many more there are."""
    more = len(items) - MOST_ITEMS
    return ", ".join(items[:MOST_ITEMS]) + (f", … {more:,} more" if more > 0 else "")
