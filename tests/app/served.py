"""A browser that looks at the dashboard, and keeps what it said and asked for."""

from typing import Any

from benchmarks.dashboard_server import DEADLINE_S, IDLE

DRAWN = ".js-plotly-plot .main-svg"
EXPECTED = "404"
"""Streamlit asks for its health below the path of the page first; the browser logs the answer."""


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
