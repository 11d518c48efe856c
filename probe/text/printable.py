"""Texts from a run as something that a terminal shows and never obeys.

Names in a run come from strangers. An escape sequence could clear the screen or retitle the window,
a newline could forge a line of our own, and a direction override could turn a name around. Each
such character is shown as the escape that a programmer would write for it. Markup is no matter
here: what is printed as `rich.text.Text`, or by a console without markup, is never read as markup.
"""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, formats (direction, zero width, tags), lone surrogates, line and paragraph breaks."""


def printable(text: str, *, limit: int | None = None) -> str:
    """The text with every character that acts instead of showing written as an escape."""
    left_out = 0
    if limit is not None and len(text) > limit:
        left_out = len(text) - limit
        text = text[:limit]
    if not text.isprintable():
        text = "".join(map(_shown, text))
    return f"{text}… ({left_out:,} more characters)" if left_out else text


def shortened(name: str, *, longest: int) -> str:
    """A name in a column: what is too long loses its middle, for ends tell names apart."""
    if len(name) > longest:
        head = (longest - 1) // 2
        name = f"{name[:head]}…{name[len(name) - (longest - 1 - head) :]}"
    return printable(name)


def _shown(character: str) -> str:
    if unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape").decode("ascii")
    return character
