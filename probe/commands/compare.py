"""`probe compare`: two or more runs side by side, with verdicts and a gate."""

from pathlib import Path
from typing import Any

import click

from probe.commands.choosing import complete_run, find_run, runs_dir_option
from probe.commands.machine import json_option, print_json
from probe.errors import UsageError

_NEXT_SIDE = "\0side"
"""Stands for `--` between sides: click would take the first one for itself, and no argument of a
process can hold a NUL."""


class _Sides(click.Command):
    """A command whose arguments may hold `--` more than once, with options anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep every `--` as a mark among the arguments."""
        return super().parse_args(ctx, [_NEXT_SIDE if item == "--" else item for item in args])


@click.command(
    "compare",
    cls=_Sides,
    epilog="Exit codes: 0 fine, 1 a gate failed, 2 the call was wrong, 3 the runs are not "
    "comparable, 4 inconclusive (with --strict).",
)
@click.argument("runs", metavar="A B... [-- B1 B2...]", nargs=-1, shell_complete=complete_run)
@runs_dir_option
@click.option(
    "--fail-if",
    "conditions",
    metavar="GATE",
    help="Exit 1 if any holds: 'step_time>+5%,peak_memory>+2%,skipped>0'.",
)
@click.option(
    "--gate",
    "gate_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML or JSON file with fail-if = [...].",
)
@click.option("--strict", is_flag=True, help="Exit 4 if what is asked stays inconclusive.")
@click.option(
    "--material",
    type=click.FloatRange(0, 100, min_open=True),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Differences of speed up to this do not matter.",
)
@click.option(
    "--intended",
    "meant",
    multiple=True,
    metavar="PATTERN",
    help="Take a difference as meant: 'model.*'; may be repeated.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="Judge by the named runs alone, not by how other runs of the same setup vary.",
)
@click.option("--md", "as_markdown", is_flag=True, help="Print Markdown for a pull request.")
@click.option(
    "--junit",
    "junit_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the gate as JUnit XML, for CI.",
)
@json_option
def command(
    runs: tuple[str, ...],
    runs_dir: Path,
    conditions: str | None,
    gate_file: Path | None,
    strict: bool,
    material: float,
    meant: tuple[str, ...],
    alone: bool,
    as_markdown: bool,
    junit_path: Path | None,
    as_json: bool,
) -> None:
    """Tell what differs between runs, whether it is real, and why.

    The first run is the one that all others are held against. With several starts of the same
    program on a side, put -- between the sides (A1 A2 A3 -- B1 B2 B3); then the run is the unit,
    and what runs do by themselves is known. With one run a side it is known where the folder holds
    other runs of the same setup, and the intervals allow for it.

    Speed is judged by an interval: slower only if all of it lies beyond the band of what matters,
    same only if all of it lies within. Bytes, skips and losses are compared as they stand.

    \b
    Example: probe compare base again --fail-if 'step_time>+5%,skipped>0'
    """
    sides = split_sides(runs)
    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other; choose one.")
    from probe.analyse.compare.comparison import compare_runs
    from probe.analyse.compare.conditions import parse_conditions
    from probe.analyse.compare.gate import judge
    from probe.telling.comparison_json import comparison_json
    from probe.telling.equal_runs import history_of
    from probe.telling.measured import read_run
    from probe.telling.run import open_readable

    gate = parse_conditions(conditions) if conditions is not None else ()
    if gate_file is not None:
        gate += read_gate(gate_file)
    paths = [[find_run(run, runs_dir) for run in side] for side in sides]
    measured = [[read_run(open_readable(path)) for path in side] for side in paths]
    comparison = compare_runs(
        measured,
        material=material / 100,
        meant=meant,
        history=() if alone else history_of(measured),
    )
    report = judge(comparison, gate, strict=strict)
    if junit_path is not None:
        from probe.text.gate_junit import gate_junit

        try:
            junit_path.write_bytes(gate_junit(comparison, report, strict=strict))
        except OSError as error:
            raise UsageError(
                f"{junit_path} cannot be written ({error.strerror or error})."
            ) from error
    if as_json:
        print_json(comparison_json(comparison, report))
    elif as_markdown:
        from probe.text.comparison_markdown import comparison_markdown

        click.echo(comparison_markdown(comparison, report), nl=False)
    else:
        from probe.text.comparison import comparison_lines
        from probe.text.terminal import make_console, print_lines

        console = make_console()
        print_lines(console, comparison_lines(comparison, report, columns=console.width))
    click.get_current_context().exit(report.exit_code)


def split_sides(runs: tuple[str, ...]) -> list[list[str]]:
    """The runs of each side: between marks, or each run a side of its own."""
    sides: list[list[str]] = [[]]
    for run in runs:
        if run == _NEXT_SIDE:
            sides.append([])
        else:
            sides[-1].append(run)
    if len(sides) == 1:
        sides = [[run] for run in runs]
    if len(sides) < 2:
        raise UsageError("Comparing takes at least two runs: probe compare A B.")
    if not all(sides):
        raise UsageError("A side has no runs; write A1 A2 -- B1 B2.")
    return sides


def read_gate(path: Path) -> tuple[Any, ...]:
    """The conditions of a TOML or JSON file."""
    import json
    import tomllib

    from probe.analyse.compare.conditions import conditions_of

    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise UsageError(f"{path} is no {kind}: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f'{path} states no gate; write {{"fail-if": ["step_time>+5%"]}}.')
    return conditions_of(document, str(path))
