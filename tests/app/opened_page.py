"""The dashboard in a test: opened on a folder, at a page, with query parameters."""

import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.catalogue import PAGES
from app.guarding import OWN_FAULT

MAIN = Path(__file__).parents[2] / "app" / "main.py"
DEADLINE_S = 60


def open_page(
    monkeypatch: pytest.MonkeyPatch, folder: Path, page: str, **parameters: str | list[str]
) -> AppTest:
    """The page as it is drawn first; pages are functions, which only their hash names."""
    monkeypatch.setattr(sys, "argv", [str(MAIN), str(folder)])
    app = AppTest.from_file(str(MAIN), default_timeout=DEADLINE_S)
    for name, value in parameters.items():
        app.query_params[name] = value
    app._page_hash = calc_hash("" if page == PAGES[0].name else page)
    return app.run()


def faults(app: AppTest) -> list[str]:
    """What went wrong of our own doing: exceptions, and cards that speak of a fault of ours."""
    cards = [item.value for item in app.error if OWN_FAULT in item.value]
    details = [item.value for item in app.code] if cards else []
    return [*(item.value for item in app.exception), *cards, *details]


def figures(app: AppTest) -> list[dict[str, Any]]:
    """Every chart that is drawn."""
    import json

    return [json.loads(item.proto.spec) for item in app.get("plotly_chart")]
