"""Texts from a run inside Markdown, where they stay texts.

A page's Markdown knows emphasis, links, HTML, `$…$` formulas, `:emoji:` and `:colour[…]`. Each sign
that could begin one is escaped; emoji are looked for after escapes are resolved, so that a colon is
parted from what follows by a joiner that nobody sees.
"""

import re

from probe.text.printable import printable

_SIGNS = re.compile(r"([!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])")
_EMOJI = re.compile(r":(?=[\w+\-/])")
_JOINER = "\u2060"


def inert(text: str, *, limit: int | None = None) -> str:
    """The text as Markdown that shows it."""
    return _SIGNS.sub(r"\\\1", _EMOJI.sub(f":{_JOINER}", printable(text, limit=limit)))
