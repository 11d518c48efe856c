"""The entry point: one sentence for each error, an exit code for each end, help for everything."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from probe import __version__
from probe.commands.root import VERBS, root
from probe.errors import ConfigError, ProbeError

MakeRun = Callable[..., Path]
ROOT = Path(__file__).parents[2]
DEADLINE_S = 60


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ProbeError("It cannot be."), 2, "probe: It cannot be.\n"),
        (ProbeError("of a\nforged\x1b[2J name"), 2, "probe: of a\\nforged\\x1b[2J name\n"),
        (ConfigError("ds.json", ["a", "b"]), 2, "probe: ds.json: 2 problems\n  - a\n  - b\n"),
        (PermissionError(13, "Permission denied", "x"), 2, "probe: x: Permission denied.\n"),
        (
            TypeError("oops"),
            70,
            "probe: A fault of our own (TypeError: oops); PROBE_DEBUG=1 shows where.\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(
    probe, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr("probe.commands.list.find_runs", raising(error))
    answer = probe("list")
    assert (answer.code, answer.out, answer.err) == (code, "", said)


def test_the_whole_story_is_there_for_who_asks(probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe.commands.list.find_runs", raising(ProbeError("It cannot be.")))
    monkeypatch.setenv("PROBE_DEBUG", "1")
    answer = probe("list")
    assert answer.code == 2
    assert answer.err.startswith("Traceback")
    assert answer.err.endswith("probe: It cannot be.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shwo"], "See `probe --help`."),
        (["list", "--colour"], "See `probe list --help`."),
        (["show"], "See `probe show --help`."),
        (["list", "--limit", "0"], "See `probe list --help`."),
        (["export", "x", "--to", "xls", "-o", "y"], "See `probe export --help`."),
        (["export", "x", "-o", "y"], "See `probe export --help`."),
    ],
)
def test_a_wrong_call_says_where_the_help_is(probe, arguments: list[str], said: str) -> None:
    answer = probe(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("probe: ")
    assert answer.err.endswith(f"{said}\n")
    assert answer.err.count("\n") == 1


def test_the_version(probe) -> None:
    assert probe("--version").out == f"probe {__version__}\n"


def test_no_verb_shows_the_help(probe) -> None:
    assert probe() == probe("--help")


def test_the_help_lists_every_verb_whole(probe) -> None:
    out = probe("--help").out
    for verb in VERBS:
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {verb} ")]
        assert line.endswith(".")
        assert not line.endswith("..."), "the first sentence is too long for a list"
    assert 'eval "$(_PROBE_COMPLETE=bash_source probe)"' in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_every_option_is_explained(verb: str) -> None:
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert parameter.help.endswith(".")
    out = CliRunner().invoke(root, [verb, "--help"], terminal_width=80).output
    assert f"  Example: probe {verb}" in out
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            assert parameter.make_metavar(click.Context(command)).strip("[]") in out


@pytest.mark.parametrize("verb", sorted({*VERBS} - {"run", "sweep", "import", "compare", "app"}))
def test_the_example_of_a_verb_that_reads_is_a_call_that_works(
    probe, make_run: MakeRun, verb: str
) -> None:
    make_run("demo")
    out = probe(verb, "--help").out
    (example,) = [line.split("Example: ")[1] for line in out.splitlines() if "Example: " in line]
    for call in example.split(" && "):
        program, *arguments = call.split()
        assert program == "probe"
        assert probe(*arguments).code == 0


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (
            ["--help"],
            {"pyarrow", "pandas", "numpy", "rich", "plotly", "torch", "streamlit", "psutil"},
        ),
        (["export", "--help"], {"pyarrow", "pandas", "numpy", "rich", "plotly", "torch"}),
        (["list"], {"pyarrow", "pandas", "numpy", "plotly", "torch", "streamlit"}),
        (["list", "--json"], {"pyarrow", "pandas", "numpy", "rich", "plotly", "torch"}),
        (["show", "demo"], {"plotly", "torch", "streamlit"}),
    ],
)
def test_a_verb_loads_only_what_it_needs(
    make_run: MakeRun, arguments: list[str], absent: set[str]
) -> None:
    make_run("demo")
    program = (
        "import sys\n"
        "from probe.__main__ import main\n"
        f"code = main({arguments!r})\n"
        "print(' '.join({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert not set(done.stderr.split()) & absent


def test_a_pipe_gets_plain_text_80_wide(probe_process, make_run: MakeRun) -> None:
    make_run("demo", notes="word " * 50)
    environment = dict.fromkeys(("COLUMNS", "NO_COLOR", "FORCE_COLOR"), "")
    done = probe_process("show", "demo", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert 72 < max(map(len, done.stdout.splitlines())) <= 80
    wide = probe_process("show", "demo", **environment | {"COLUMNS": "120"})
    assert 80 < max(map(len, wide.stdout.splitlines())) <= 120


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["list", "--json"], ["show", "r0"]])
@pytest.mark.parametrize("forced", ["", "1"])
def test_a_reader_that_leaves_is_no_reason_to_complain(
    make_run: MakeRun, arguments: list[str], forced: str
) -> None:
    for number in range(2):
        make_run(f"r{number}", steps=1, ranks=1)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "probe", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            env={**os.environ, "PYTHONPATH": str(ROOT), "FORCE_COLOR": forced},
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_sentence(make_run: MakeRun) -> None:
    make_run("demo")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "probe", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "probe: The output: No space left on device.\n"


def test_a_narrow_alphabet_loses_no_line(probe_process, make_run: MakeRun) -> None:
    make_run("modèle")
    done = probe_process("list", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "mod\\xe8le" in done.stdout


def on_a_terminal(*arguments: str, **surroundings: str) -> str:
    """What a terminal of 80 columns is sent."""
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        program = [sys.executable, "-m", "probe", *arguments]
        os.execve(sys.executable, program, environment | surroundings)
    sent = b""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s and select.select([terminal], [], [], DEADLINE_S)[0]:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not part:
            break
        sent += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return sent.decode()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_terminal_gets_colours_unless_it_wants_none(make_run: MakeRun) -> None:
    make_run("demo")
    green = "\x1b[32mfinished\x1b[0m"
    assert green in on_a_terminal("list")
    assert green in on_a_terminal("show", "demo")
    plain = on_a_terminal("list", NO_COLOR="1")
    assert "\x1b[32m" not in plain
    assert "finished" in plain


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_long_work_shows_where_it_is_on_a_terminal_only(probe_process, make_run: MakeRun) -> None:
    make_run("demo")
    assert "Checking metrics" in on_a_terminal("doctor", "demo")
    assert probe_process("doctor", "demo").stderr == ""


def completions(probe_process, words: str, **surroundings: str) -> list[str]:
    done = probe_process(
        _PROBE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
        **surroundings,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_tab_completes_verbs_runs_and_tables(probe_process, make_run: MakeRun) -> None:
    make_run("20250101-a")
    make_run("20250102-b")
    assert completions(probe_process, "probe s") == ["sweep", "show", "seal"]
    assert completions(probe_process, "probe show 2025") == ["20250102-b", "20250101-a"]
    assert completions(probe_process, "probe show l") == ["latest"]
    assert completions(probe_process, "probe export --table co") == ["comm", "comm_calls"]
    assert completions(probe_process, "probe show --runs-dir nowhere 2025") == ["2025"]


def test_completion_obeys_the_folder_that_is_named(
    probe_process, make_run: MakeRun, tmp_path: Path
) -> None:
    make_run("demo")
    (tmp_path / "runs").rename(tmp_path / "other")
    assert completions(probe_process, "probe show --runs-dir other de") == ["demo"]
    assert completions(probe_process, "probe show de", PROBE_RUNS="other") == ["demo"]


def test_completion_offers_nothing_that_could_act_in_the_shell(
    probe_process, make_run: MakeRun
) -> None:
    for name in ("demo\x1b[2J\nplain,forged", "demo;reboot", "demo $(reboot)", "demo-1"):
        make_run(name)
    assert completions(probe_process, "probe show de") == ["demo-1"]
