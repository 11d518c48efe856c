"""Views are judged as literal text, 80 columns wide and without colours."""

from collections.abc import Callable, Iterable

import pytest
from rich.console import RenderableType
from rich.text import Text

from probe.text.terminal import make_console, print_lines, print_plainly


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[RenderableType | list[Text]], str]:
    """What a pipe receives of a view."""

    def show(view: RenderableType | Iterable[Text]) -> str:
        if isinstance(view, list):
            print_lines(make_console(), view)
        else:
            print_plainly(make_console(), view)
        return capsys.readouterr().out

    return show
