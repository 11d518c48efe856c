"""A figure as a page places it: narrow beside others, or over the whole width."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure and how much room it wants."""

    figure: Any
    wide: bool = False
