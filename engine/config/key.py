"""What one configuration key is: its name, what it may be, and the field that it sets."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a value may be."""

    BOOL = "true or false"
    COUNT = "whole number"
    NUMBER = "number"
    NUMBERS = "number, or one a parameter group"
    PAIR = "pair of numbers"
    TEXT = "text"
    CHOICE = "choice"
    DTYPE = "fp32, fp16 or bf16"
    TIER = "none, cpu or nvme"


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key: what it may be, what it is if absent, and the field of `Config` that it sets."""

    path: str
    kind: Kind
    default: Any = None
    lands: str
    """A field of `Config` that takes the value as it is, or, in brackets, what it helps decide."""
    meaning: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    """The words of a CHOICE; for numbers, words that are allowed besides."""
    members: type[StrEnum] | None = None
    """The enum that the words are members of, if they are."""
    endless: bool = False
    """Infinity is allowed too, and means never."""

    @property
    def direct(self) -> bool:
        return not self.lands.startswith("(")
