"""The list of runs: what each is and how it stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from probe.read.discovery import RunSummary, is_readable
from probe.schema.documents import RunConfig
from probe.schema.vocabulary import Severity, Tier
from probe.text.marks import SEVERITY_STYLE, STATUS_STYLE
from probe.text.printable import printable
from probe.text.terminal import MOST_COLUMNS
from probe.units import MISSING, format_age, format_count


@dataclass(frozen=True, kw_only=True)
class RunList:
    """The runs in the order given: one line each, or two where names and facts need the room."""

    runs: Sequence[RunSummary]
    now_ns: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Names in front if everything fits, else each name on a line above its facts."""
        names = [Text(printable(run.name)) for run in self.runs]
        facts = [_facts(run, self.now_ns) for run in self.runs]
        one_line = _table(["name", *_HEADINGS])
        two_lines = _table(["", *_HEADINGS])
        for name, row in zip(names, facts, strict=True):
            one_line.add_row(name, *row)
            two_lines.add_row("", *row)
        unbounded = options.update(width=MOST_COLUMNS)
        if console.measure(one_line, options=unbounded).maximum <= options.max_width:
            yield one_line
            return
        head, *lines = console.render_lines(two_lines, options, pad=False)
        yield from (*head, Segment.line())
        for name, line in zip(names, lines, strict=True):
            yield name
            yield from (*line, Segment.line())


_HEADINGS = ("status", "prec", "zero", "offload", "ranks", "steps", "age", "health")
_FIGURES = ("zero", "ranks", "steps", "age")


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in _FIGURES else "left"
        table.add_column(heading, no_wrap=True, justify=justify)
    return table


def _facts(run: RunSummary, now_ns: int) -> list[Text]:
    config = run.manifest.config
    return [
        Text(run.verdict.status, style=STATUS_STYLE[run.verdict.status]),
        Text(config.precision or MISSING),
        Text(MISSING if config.stage is None else format_count(config.stage)),
        Text(_offload(config)),
        Text(_ranks(run)),
        Text(format_count(run.steps)),
        Text(format_age(run.started_ns, now_ns)),
        _health(run),
    ]


def _offload(config: RunConfig) -> str:
    """What rests off the device and where, in one word where one is enough."""
    optimizer, params = config.offload_optimizer, config.offload_params
    if optimizer is params is Tier.DEVICE:
        return MISSING
    if params is Tier.DEVICE:
        return f"opt {optimizer}"
    if optimizer is Tier.DEVICE:
        return f"par {params}"
    return f"all {params}" if optimizer is params else "mixed"


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
