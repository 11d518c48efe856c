"""`probe` itself: the list of verbs, each imported when it is called or listed."""

import importlib
import keyword

import click

from probe import __version__

VERBS = (
    "run",
    "sweep",
    "list",
    "show",
    "compare",
    "report",
    "app",
    "estimate",
    "doctor",
    "seal",
    "export",
    "import",
    "trace",
)
"""In the order of the help; `probe.commands.<verb>` holds its `command`.

The module of a verb that is a keyword of Python has an underscore behind its name."""

COMPLETION_VARIABLE = "_PROBE_COMPLETE"
COMPLETION = f'Completion: eval "$({COMPLETION_VARIABLE}=bash_source probe)" (or zsh_, fish_)'


class Verbs(click.Group):
    """A group whose commands lie in modules of their own name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name, imported now."""
        if cmd_name not in VERBS:
            return None
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = importlib.import_module(f"probe.commands.{module}").command
        return command


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    epilog=COMPLETION,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="probe %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """See why a mixed-precision or ZeRO training run is slow, big or unstable.

    \b
    Example: probe run train.py --stage 3 --bf16; probe show latest
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
