"""`probe app`: the server answers, and what is missing is said in a sentence."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from benchmarks.dashboard_server import DEADLINE_S, wait_for
from probe.__main__ import main
from probe.commands.app import main_file

ROOT = Path(__file__).parents[2]


def test_the_verb_serves_the_dashboard_whatever_lies_in_the_folder(tmp_path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "runs").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, "-P", "-m", "probe", "app", "runs", "--port", str(port), "--no-browser"]
    process = subprocess.Popen(
        call,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/_stcore/health")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=DEADLINE_S)
    assert f"http://localhost:{port} shows {tmp_path / 'runs'}" in said


def test_without_streamlit_a_sentence_says_what_to_install(monkeypatch, capsys) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "streamlit" else find(name)
    )
    assert main(["app"]) == 2
    assert "zeroprobe[app]" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_named(capsys, tmp_path) -> None:
    assert main(["app", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_pages_are_part_of_the_package() -> None:
    assert main_file() == ROOT / "app" / "main.py"
    assert (main_file().parent / ".streamlit" / "config.toml").is_file()
