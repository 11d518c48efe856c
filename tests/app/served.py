"""The dashboard as its own process, and a browser that looks at it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DEADLINE_S = 120
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
DRAWN = ".js-plotly-plot .main-svg"
EXPECTED = "404"
"""Streamlit asks for its health below the path of the page first; the browser logs the answer."""


@contextmanager
def served(*folders: Path) -> Iterator[str]:
    """Streamlit on a free port, ready; ended with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    call = [sys.executable, "-P", "-m", "streamlit", "run", str(ROOT / "app" / "main.py")]
    call += ["--server.port", str(port), "--", *map(str, folders)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(call, env=environment, stdout=subprocess.DEVNULL)
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


class Watched:
    """A page whose console and requests are kept."""

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(DEADLINE_S * 1000)
        self._address = address
        self._said: list[str] = []
        self._asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self._said.append(str(error)))
        self.page.on("request", lambda request: self._asked.append(request.url))

    def open(self, path: str) -> None:
        """Go there and wait until nothing is drawn any more."""
        self.page.goto(f"{self._address}/{path}")
        self.settle()

    def settle(self) -> None:
        """Wait until the script has ended and its charts are drawn."""
        self.page.wait_for_selector(IDLE)
        self.page.wait_for_function(
            "() => !document.querySelector('[data-testid=\"stSkeleton\"]')"
            " && [...document.querySelectorAll('[data-testid=\"stPlotlyChart\"]')]"
            ".every(place => place.querySelector('.main-svg'))"
        )
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def complaints(self) -> list[str]:
        """Errors in the console, and requests to anywhere else."""
        own = (self._address, self._address.replace("http", "ws"), "data:", "blob:")
        return [*self._said, *(url for url in self._asked if not url.startswith(own))]

    def _heard(self, message: Any) -> None:
        if message.type == "error" and EXPECTED not in message.text:
            self._said.append(message.text)
