"""How long the dashboard takes until a page is drawn: a real browser on a warm server.

Warm: the server runs, and the browser has had the page of another run before: it has the scripts,
and has compiled them as it does from the second visit on. `first` is the first look at a run
since the server started (its tables are read), `again` any later one. A page counts as drawn when
its script has ended and every chart of it is in the page.

The first row is a page that is not ours, with one chart: on the same machine at the same hour all
others are to be held against it.

    python -m benchmarks.dashboard [--runs N]
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.dashboard_server import DEADLINE_S, IDLE, served
from benchmarks.machine import describe_machine
from benchmarks.synthetic_run import record_synthetic_run
from probe.seal import seal_run

SHAPES = ((2, 100, 2.0), (8, 10_000, 3.0), (64, 2_000, 3.0))
"""Ranks, steps and the seconds that the first look may take; the first is a sample run."""
LIST_WITHIN_S = 2.0
BARE = """
import plotly.graph_objects as go
import streamlit as st

st.plotly_chart(go.Figure(go.Scatter(y=[1, 2])))
"""
"""A page of one line: what the machine, the browser and Streamlit need by themselves."""
LOOKS_TO_WARM = 2
LOOKS = 5
DRAWN = """() => {
  if (document.querySelector('.live-chart .main-svg')) return true
  const charts = [...document.querySelectorAll('[data-testid="stPlotlyChart"]')]
  const tables = [...document.querySelectorAll('[data-testid="stDataFrame"] canvas')]
  return charts.every(place => place.querySelector('.main-svg'))
    && (charts.length > 0 || tables.length > 0)
    && !document.querySelector('[data-testid="stSkeleton"]')
}"""


def main() -> None:
    """Record, serve, look, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="runs of the list")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), asked.runs)


def measure(place: Path, many: int) -> None:
    """The table."""
    from playwright.sync_api import sync_playwright

    shapes = {
        _record(place / "runs", ranks=ranks, steps=steps): within_s
        for ranks, steps, within_s in SHAPES
    }
    other = _record(place / "runs", ranks=1, steps=100)
    _record_many(place / "many", many)
    print("; ".join(describe_machine().values()))
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print("| page | run | first [s] | mark | again [s], median of 5 |")
    print("| --- | --- | ---: | ---: | ---: |")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        bare = place / "bare.py"
        bare.write_text(BARE)
        with served(script=bare) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            for _ in range(LOOKS_TO_WARM):
                _look(page, address)
            _tell(page, "bare", "a line of two points", address)
        with served(place / "runs") as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            for _ in range(LOOKS_TO_WARM):
                _look(page, f"{address}/overview?run={other}")
            for name, within_s in shapes.items():
                _tell(page, "overview", name, f"{address}/overview?run={name}", within_s)
        with served(place / "many") as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            for _ in range(LOOKS_TO_WARM):
                _look(page, f"{address}/live")
            _tell(page, "runs", f"{many:,} in the list", address, LIST_WITHIN_S)
        browser.close()


def _tell(page: Any, title: str, run: str, address: str, within_s: float | None = None) -> None:
    first = _look(page, address)
    again = statistics.median(_look(page, address) for _ in range(LOOKS))
    mark = "" if within_s is None else f"{within_s:g}{', missed' * (first > within_s)}"
    print(f"| {title} | {run} | {first:.2f} | {mark} | {again:.2f} |", flush=True)


def _look(page: Any, address: str) -> float:
    """Seconds until a page is drawn."""
    start = time.perf_counter()
    page.goto(address, timeout=DEADLINE_S * 1000)
    page.wait_for_selector(IDLE, timeout=DEADLINE_S * 1000)
    page.wait_for_function(DRAWN, timeout=DEADLINE_S * 1000)
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return time.perf_counter() - start


def _record(runs: Path, *, ranks: int, steps: int) -> str:
    """A run as a launcher leaves it: sealed."""
    name = f"{ranks}x{steps}"
    path = record_synthetic_run(runs, ranks=ranks, steps=steps, name=name)
    seal_run(path)
    path.rename(runs / name)
    return name


def _record_many(runs: Path, count: int) -> None:
    path = record_synthetic_run(runs, ranks=1, steps=20, name="one")
    seal_run(path)
    for number in range(count - 1):
        shutil.copytree(path, runs / f"run-{number:05d}")


if __name__ == "__main__":
    main()
