"""What is written down of the place of a run, and what never is."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from probe.launch.surroundings import (
    allowed_environment,
    git_facts,
    host_facts,
    masked_arguments,
    package_versions,
    script_hash,
)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (["train.py", "--lr", "0.1"], ["train.py", "--lr", "0.1"]),
        (["--api-key", "s3cret", "--steps", "2"], ["--api-key", "***", "--steps", "2"]),
        (["--hf_token=s3cret"], ["--hf_token=***"]),
        (["--password", "--next"], ["--password", "--next"]),
        (["--AUTH", "a b"], ["--AUTH", "***"]),
        (["--monkey", "banana"], ["--monkey", "***"]),
    ],
)
def test_values_of_arguments_that_sound_secret_are_masked(
    given: list[str], written: list[str]
) -> None:
    assert masked_arguments(given) == written


def test_only_variables_of_the_list_are_kept() -> None:
    environment = {"OMP_NUM_THREADS": "1", "AWS_SECRET_ACCESS_KEY": "x", "HOME": "/home/me"}
    assert allowed_environment(environment) == {"OMP_NUM_THREADS": "1"}


def test_the_script_is_known_by_its_bytes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(b"print(1)\n")
    assert script_hash(script) == hashlib.sha256(b"print(1)\n").hexdigest()


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def test_the_state_of_the_code(tmp_path: Path) -> None:
    assert git_facts(tmp_path).commit == ""
    git(tmp_path, "init", "-b", "trunk")
    script = tmp_path / "train.py"
    script.write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    clean = git_facts(tmp_path)
    assert (len(clean.commit), clean.branch, clean.dirty) == (40, "trunk", False)
    script.write_text("2\n")
    assert git_facts(tmp_path).dirty is True


def test_the_machine_and_the_packages() -> None:
    host = host_facts()
    assert host.name
    assert host.cores and host.cores > 0
    assert {"python", "torch", "numpy"} <= package_versions().keys()
