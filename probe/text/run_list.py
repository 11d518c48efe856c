"""The list of runs: one line a run, what it is and how it stands."""

from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from probe.read.discovery import RunSummary, is_readable
from probe.read.problem import Problem
from probe.schema.documents import RunConfig
from probe.schema.vocabulary import Severity, Tier
from probe.text.marks import SEVERITY_STYLE, STATUS_STYLE
from probe.text.printable import printable
from probe.units import MISSING, format_age, format_count


def run_list(runs: Sequence[RunSummary], *, now_ns: int) -> Table:
    """The runs in the order given; the name is the only column that may break across lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", overflow="fold", min_width=12)
    for heading in ("status", "prec"):
        table.add_column(heading, no_wrap=True)
    table.add_column("zero", no_wrap=True, justify="right")
    table.add_column("offload", no_wrap=True)
    for heading in ("ranks", "steps", "age"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("health", no_wrap=True)
    for run in runs:
        config = run.manifest.config
        table.add_row(
            Text(printable(run.name)),
            Text(run.verdict.status, style=STATUS_STYLE[run.verdict.status]),
            config.precision or MISSING,
            MISSING if config.stage is None else format_count(config.stage),
            describe_offload(config),
            _ranks(run),
            format_count(run.steps),
            format_age(run.started_ns, now_ns),
            _health(run),
        )
    return table


def describe_offload(config: RunConfig) -> str:
    """What rests off the device and where, in one word where one is enough."""
    optimizer, params = config.offload_optimizer, config.offload_params
    if optimizer is params is Tier.DEVICE:
        return MISSING
    if params is Tier.DEVICE:
        return f"opt {optimizer}"
    if optimizer is Tier.DEVICE:
        return f"par {params}"
    return f"all {params}" if optimizer is params else f"opt {optimizer}, par {params}"


def describe_problems(problems: Sequence[Problem]) -> str:
    """How many problems of each severity: 2 errors, 1 warning."""
    found = Counter(item.severity for item in problems)
    counts = ((severity, found[severity]) for severity in Severity if found[severity])
    return ", ".join(
        f"{count:,} {severity}{'s' if count > 1 and severity is not Severity.INFO else ''}"
        for severity, count in counts
    )


def _ranks(run: RunSummary) -> str:
    """How many ranks have a folder, and of how many where some are missing."""
    expected = run.manifest.world_size
    if run.ranks >= expected:
        return format_count(run.ranks)
    return f"{format_count(run.ranks)}/{format_count(expected)}"


def _health(run: RunSummary) -> Text:
    """The gravest that the documents tell; tables are opened by `probe doctor` only."""
    if not is_readable(run):
        version = printable(run.manifest.format_version, limit=8)
        return Text(f"format {version}", style=SEVERITY_STYLE[Severity.ERROR])
    for severity, short in ((Severity.ERROR, "err"), (Severity.WARNING, "warn")):
        count = sum(item.severity is severity for item in run.problems)
        if count:
            return Text(f"{format_count(count)} {short}", style=SEVERITY_STYLE[severity])
    return Text("ok")
