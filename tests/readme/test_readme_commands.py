"""Every command in the README is run, in its order, in a folder like a fresh checkout.

The training scripts there train less: their defaults are made smaller, nothing else is changed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.commands.root import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALLER = (
    ('"--steps", type=int, default=60', '"--steps", type=int, default=14'),
    ('"--width", type=int, default=256', '"--width", type=int, default=16'),
    ('"--length", type=int, default=128', '"--length", type=int, default=16'),
)
DEADLINE_S = 1200


def commands() -> Iterator[list[str]]:
    """The words of each line of each block of commands, remarks left out."""
    for block in BLOCK.findall(README):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


ALL = list(commands())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    script = (ROOT / "train.py").read_text()
    for before, after in SMALLER:
        assert script.count(before) == 1, f"train.py has no {before} any more"
        script = script.replace(before, after)
    (folder / "train.py").write_text(script)
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def test_there_are_commands_and_every_verb_is_among_them() -> None:
    programs = {words[0] for words in ALL}
    assert programs <= {"make", "pip", "probe", "python", "cd", "git"}
    shown = {words[1] for words in ALL if words[0] == "probe"}
    assert shown == set(VERBS) - {"seal", "app"}, "sealing happens by itself, serving ends not"


@pytest.mark.parametrize("words", [words for words in ALL if words[0] == "make"], ids=shlex.join)
def test_the_target_exists(words: list[str]) -> None:
    done = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [words for words in ALL if words[0] == "pip"], ids=shlex.join)
def test_what_is_installed_exists(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (named,) = [word for word in words if word.startswith((".", project["name"]))]
    extras = re.findall(r"\[(.*)\]", named)
    asked = set(extras[0].split(",")) if extras else set()
    assert asked <= set(project["optional-dependencies"])


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S)
def test_all_others_work_one_after_the_other(checkout: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }
    environment.pop("PROBE_RUNS", None)
    for words in ALL:
        if words[0] not in ("probe", "python"):
            continue
        if words[:2] == ["probe", "import"]:
            take_traces(checkout, checkout / words[2])
        call = [
            sys.executable,
            *(["-m"] if words[0] == "probe" else []),
            *words[words[0] == "python" :],
        ]
        done = subprocess.run(
            call,
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S / 2,
        )
        # A gate says by its exit code what it found; the data of a tiny run may say anything.
        fine = {0, 1, 3, 4} if "--fail-if" in words else {0}
        assert done.returncode in fine, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


def take_traces(checkout: Path, folder: Path) -> None:
    """A folder of traces as another program would leave it."""
    folder.mkdir()
    for trace in (checkout / "runs").glob("*/rank_*/trace_*.json.gz"):
        shutil.copy(trace, folder)


def test_every_file_in_the_tree_is_there() -> None:
    tree = README[README.index("## What lies where") :]
    block = tree[tree.index("```") :].split("```")[1]
    for line in block.splitlines()[1:]:
        name = line.split("  ")[0].strip()
        if name:
            assert (ROOT / name).exists(), name
