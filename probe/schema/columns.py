"""What a column means and counts in: the vocabulary in which `rows` states its facts.

A field of a row is `Annotated[type, Column(unit, meaning)]`. The aliases here carry the bounds that
the wire format needs, so that a reader refuses what the writer could never have written.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec


class Unit(StrEnum):
    """What the number in a column counts."""

    NONE = "–"
    NANOSECONDS = "ns"
    BYTES = "bytes"
    ELEMENTS = "elements"
    COUNT = "count"
    INDEX = "index"
    RATIO = "ratio"
    FLAG = "flag"
    TEXT = "text"


@dataclass(frozen=True)
class Column:
    """The unit and the meaning of one column; its name and type stand beside it in the row."""

    unit: Unit
    meaning: str


Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that Parquet can hold without loss."""


def nanoseconds(meaning: str) -> Column:
    """A duration or a moment in ns."""
    return Column(Unit.NANOSECONDS, meaning)


def byte_count(meaning: str) -> Column:
    """A number of bytes."""
    return Column(Unit.BYTES, meaning)


def elements(meaning: str) -> Column:
    """A number of tensor elements."""
    return Column(Unit.ELEMENTS, meaning)


def count(meaning: str) -> Column:
    """A number of things."""
    return Column(Unit.COUNT, meaning)


def index(meaning: str) -> Column:
    """A position that counts from zero."""
    return Column(Unit.INDEX, meaning)


def number(meaning: str) -> Column:
    """A plain number; it may be nan or infinite, and null means that there was none."""
    return Column(Unit.NONE, meaning)


def flag(meaning: str) -> Column:
    """True or false."""
    return Column(Unit.FLAG, meaning)


def text(meaning: str) -> Column:
    """A name or a word; never markup, never a path to follow."""
    return Column(Unit.TEXT, meaning)
