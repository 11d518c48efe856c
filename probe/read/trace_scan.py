"""Where the elements of a JSON array begin and end, without decoding them.

This is the careful way through a piece of text: it looks at every string and bracket. The stream
takes it only where its guess failed: at the first piece, at the end of the array, around damage.
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{}]', re.DOTALL)
DEEPEST = 200
"""No event nests further; text that does was made to cost time."""
_QUOTE, _OPENING, _CLOSING = b'"'[0], b"[{", b"]}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a piece of an array holds."""

    spans: list[tuple[int, int]]
    """Begin and end of each whole object or array; plain values between them are passed over."""
    rest: int
    """Where the first element that is not whole begins."""
    closed: int | None
    """Where the array ended, just behind its bracket; None if it goes on."""
    hopeless: bool = False
    """The element at `rest` nests too deeply to be one, and was not looked at further."""


def scan_elements(text: bytes, start: int) -> Scan:
    """Scan on from a place between two elements of an array."""
    spans: list[tuple[int, int]] = []
    depth = 0
    begin = rest = start
    for token in _TOKEN.finditer(text, start):
        first = text[token.start()]
        if first == _QUOTE:
            if token.end() - token.start() == 1:
                # A string whose end has not come yet.
                return Scan(spans=spans, rest=rest if not depth else begin, closed=None)
        elif first in _OPENING:
            if depth == 0:
                begin = token.start()
            depth += 1
            if depth > DEEPEST:
                return Scan(spans=spans, rest=begin, closed=None, hopeless=True)
        elif depth == 0:
            if first == _CLOSING[0]:
                return Scan(spans=spans, rest=token.end(), closed=token.end())
        else:
            depth -= 1
            if depth == 0:
                rest = token.end()
                spans.append((begin, rest))
    return Scan(spans=spans, rest=begin if depth else rest, closed=None)
