"""SIGKILL at any moment of a save loses nothing that was saved before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.checkpoint import folder as folders
from probe.schema.layout import CHECKPOINT_DOCUMENT

ROOT = Path(__file__).parents[2]
DEADLINE_S = 400

pytestmark = pytest.mark.timeout(DEADLINE_S + 20)


def run_savers(folder: Path, kills: int, seed: int) -> list[list[str]]:
    """What each saver said, in order."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.checkpoint.killed_savers",
            str(folder),
            str(kills),
            str(seed),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    lives: list[list[str]] = [[]]
    for line in done.stdout.splitlines():
        lives[-1].append(line)
        if line.startswith("ended"):
            lives.append([])
    return lives[:-1]


@pytest.mark.parametrize(("kills", "seed"), [(6, 1), pytest.param(50, 2, marks=pytest.mark.slow)])
def test_nothing_is_lost(tmp_path: Path, kills: int, seed: int) -> None:
    lives = run_savers(tmp_path, kills, seed)
    assert len(lives) == kills
    known = 0
    firsts = 0
    for life in lives:
        assert life[-1] == "ended -9", life
        assert not [line for line in life if line.startswith("broken")], life
        word, step = life[0].split()
        assert word == "loaded"
        found = 0 if step == "None" else int(step)
        # The last that was said to be saved, or the one after it that was just not said yet.
        assert found in (known, known + 1), life
        saved = [int(line.split()[1]) for line in life if line.startswith("saved")]
        known = saved[-1] if saved else found
        firsts += not saved
    assert 0 < firsts < kills, "some were to be killed in their first save and some later"


def test_between_two_renames_the_one_before_serves(tmp_path: Path) -> None:
    # GIVEN a saver that was killed after it moved the old "best" aside
    (tmp_path / ".saving-best").mkdir()
    old = tmp_path / ".replaced-best"
    old.mkdir()
    (old / CHECKPOINT_DOCUMENT).write_text("old")
    # THEN a load finds the old one, and the next save puts it back and clears the rest
    assert folders.path_of(tmp_path, "best") == old
    folders.begin(tmp_path, "other")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".saving-other", "best"]
    assert (tmp_path / "best" / CHECKPOINT_DOCUMENT).read_text() == "old"
    # AND one whose successor is there already goes
    old.mkdir()
    folders.begin(tmp_path, "other")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".saving-other", "best"]
