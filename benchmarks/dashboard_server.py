"""The dashboard as a process of its own, for whoever looks at it: benchmarks and browser tests."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probe.commands.app import main_file

DEADLINE_S = 120
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
"""A page whose script has ended."""


@contextmanager
def served(*folders: Path, script: Path | None = None) -> Iterator[str]:
    """Streamlit on a free port, ready; ended with the block. Without a script, the dashboard."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, "-P", "-m", "streamlit", "run", str(script or main_file())]
    process = subprocess.Popen(
        [*call, "--server.port", str(port), "--", *map(str, folders)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/_stcore/health")
        yield address
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def wait_for(address: str) -> None:
    """Until the address answers."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, f"{address} never answered"
            time.sleep(0.1)
