"""Values that are spelled in a way of their own: ranges of steps, blocks of a model, lists."""

from collections.abc import Callable
from typing import Any

import click


class StepRange(click.ParamType[tuple[int, int]]):
    """`5:8` is the steps 5, 6 and 7."""

    name = "steps"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """First step, and one past the last."""
        if isinstance(value, tuple):
            return value
        first, colon, end = str(value).partition(":")
        if not (first.isdigit() and (not colon or end.isdigit())):
            self.fail(f"{value!r} is no range of steps; write A:B, such as 5:8.", param, ctx)
        chosen = int(first), int(end) if colon else int(first) + 1
        if chosen[0] >= chosen[1]:
            self.fail(f"{value!r} holds no step; B must be larger than A.", param, ctx)
        return chosen


class EveryBlock(click.ParamType[int]):
    """`all` is every block, a number K every K-th, `off` none."""

    name = "blocks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """1, K or 0."""
        if isinstance(value, int):
            return value
        words = {"all": 1, "off": 0}
        if value not in words and not str(value).isdigit():
            self.fail(f"{value!r} is no choice of blocks; write all, a number, or off.", param, ctx)
        return words[value] if value in words else int(value)


class Listed(click.ParamType[list[Any]]):
    """Several values of one kind, with commas between."""

    name = "list"

    def __init__(self, kind: Callable[[str], Any]) -> None:
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Any]:
        """The values in their order."""
        if isinstance(value, list):
            return value
        try:
            return [self._kind(word.strip()) for word in str(value).split(",") if word.strip()]
        except ValueError:
            self.fail(f"{value!r} cannot be read as a list; write values with commas.", param, ctx)
