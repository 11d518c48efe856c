"""The list of runs: what each is and how it stands."""

from collections.abc import Sequence
from itertools import chain

from rich.text import Text

from probe.read.discovery import RunSummary, is_readable
from probe.schema.vocabulary import Severity
from probe.text.aligned import Cell, align, with_heading
from probe.text.marks import SEVERITY_STYLE, STATUS_STYLE
from probe.text.offload import offload_words
from probe.text.printable import printable
from probe.units import MISSING, format_age, format_count

_HEADINGS = ("name", "status", "prec", "zero", "offload", "ranks", "steps", "age", "health")
_FIGURES = tuple(map(_HEADINGS.index, ("zero", "ranks", "steps", "age")))


def run_list(runs: Sequence[RunSummary], *, now_ns: int, columns: int) -> list[Text]:
    """The runs in the order given: a line each, or two where names and facts need the room."""
    names = [Text(printable(run.name)) for run in runs]
    facts = [_facts(run, now_ns) for run in runs]
    rows = [[name, *row] for name, row in zip(names, facts, strict=True)]
    lines = align([_HEADINGS, *rows], right=_FIGURES)
    if max(line.cell_len for line in lines) > columns:
        head, *below = align([("", *_HEADINGS[1:]), *(["", *row] for row in facts)], right=_FIGURES)
        lines = [head, *chain.from_iterable(zip(names, below, strict=True))]
    return with_heading(lines)


def _facts(run: RunSummary, now_ns: int) -> list[Cell]:
    config = run.manifest.config
    return [
        Text(run.verdict.status, style=STATUS_STYLE[run.verdict.status]),
        config.precision or MISSING,
        MISSING if config.stage is None else format_count(config.stage),
        offload_words(optimizer=config.offload_optimizer, params=config.offload_params),
        _ranks(run),
        format_count(run.steps),
        format_age(run.started_ns, now_ns),
        _health(run),
    ]


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
    if run.manifest.hangs:
        return Text("hung", style=SEVERITY_STYLE[Severity.WARNING])
    return Text("ok")
