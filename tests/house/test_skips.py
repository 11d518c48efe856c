"""A browser test that is skipped in CI is a failure, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("variables", "exit_code"), [({"CI": "true"}, 1), ({}, 0)])
def test_a_skipped_browser_test(tmp_path: Path, variables: dict[str, str], exit_code: int) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_page.py").write_text(
        "import pytest\n@pytest.mark.browser\ndef test_page(): pytest.skip('no browser')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "markers=browser",
            ".",
        ],
        cwd=tmp_path,
        env={**environment, **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == exit_code, done.stdout
