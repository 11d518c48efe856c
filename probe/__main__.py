"""The entry point of `probe`: the one place where an error becomes a sentence and an exit code.

0    done
1    `probe doctor` found errors
2    the call was wrong, or a person can mend what is in the way
70   a fault of our own
130  interrupted
141  whoever read our output left
"""

import os
import sys
import traceback
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from probe.commands.root import COMPLETION_VARIABLE, root
from probe.errors import ConfigError, ProbeError
from probe.text.printable import printable

CALLED_WRONGLY = 2
OWN_FAULT = 70
INTERRUPTED = 130
READER_LEFT = 141
DEBUG_VARIABLE = "PROBE_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code comes back, nothing is raised."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Whatever the locale and whatever a run contains, it can be written somehow.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _run(arguments)
        finally:
            _flush()
    except BrokenPipeError:
        code = READER_LEFT
    except Exception as error:
        code = _explain(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def _flush() -> None:
    """Write out what is buffered; if that fails, see that the interpreter need not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _run(arguments: Sequence[str] | None) -> int:
    """Let click parse and call, without its own handling of errors."""
    if asked := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(root, {}, "probe", COMPLETION_VARIABLE, asked)
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        with root.make_context("probe", given) as context:
            root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _explain(error: Exception) -> int:
    """Say what went wrong in one sentence on stderr; the whole story only if asked for."""
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, ConfigError):
        _say(*str(error).split("\n"))
    elif isinstance(error, ProbeError):
        _say(str(error))
    elif isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        more = f" See `{context.command_path} --help`." if context else ""
        _say(error.format_message() + more)
    elif isinstance(error, OSError):
        _say(f"{error.filename or 'The output'}: {error.strerror or error}.")
    else:
        what = f"{type(error).__name__}: {error}"
        _say(f"A fault of our own ({what}); {DEBUG_VARIABLE}=1 shows where.")
        return OWN_FAULT
    return error.exit_code if isinstance(error, ProbeError) else CALLED_WRONGLY


def _say(first: str, *rest: str) -> None:
    """Texts in an error may quote a run: what acts in them is shown instead."""
    for line in (f"probe: {first}", *rest):
        print(printable(line), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
