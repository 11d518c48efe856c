"""Pieces of HTML. Every text is escaped here, and nowhere is a text taken for markup."""

from collections.abc import Iterable, Sequence
from html import escape

from probe.text.comparison_blocks import Block
from probe.text.printable import printable


class Html(str):
    """A text that is markup already: made by these functions, never from a run."""

    __slots__ = ()


def element(tag: str, *inside: str, **attributes: str) -> Html:
    """An element; texts inside are escaped, and an attribute's underscore is a hyphen."""
    told = "".join(
        f' {name.strip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{told}>{''.join(map(_safe, inside))}</{tag}>")


def joined(parts: Iterable[str]) -> Html:
    """Pieces one after the other."""
    return Html("\n".join(_safe(part) for part in parts if part))


def facts_list(facts: Iterable[tuple[str, str]]) -> Html:
    """Names and texts; a name without a text is left out."""
    rows = [joined((element("dt", name), element("dd", text))) for name, text in facts if text]
    return element("dl", *rows) if rows else Html()


def table_of(block: Block) -> Html:
    """A block as a table with its title above and its sentences below."""
    parts: list[str] = [element("h4", block.title)] if block.title else []
    if block.rows:
        head = element("tr", *(_cell("th", block, *at) for at in enumerate(block.headings)))
        body = [
            element(
                "tr",
                *(_cell("td", block, place, cell) for place, cell in enumerate(row)),
                class_=_tone(block, number),
            )
            for number, row in enumerate(block.rows)
        ]
        table = element("table", element("thead", head), element("tbody", *body))
        parts.append(element("div", table, class_="table", tabindex="0"))
    if block.below:
        parts.append(sentences(block.below))
    return joined(parts)


def sentences(texts: Sequence[str]) -> Html:
    """A list of sentences, or nothing."""
    return element("ul", *(element("li", text.strip()) for text in texts), class_="remarks")


def _cell(tag: str, block: Block, place: int, text: str) -> Html:
    return element(tag, text, class_="number") if place in block.right else element(tag, text)


def _tone(block: Block, number: int) -> str:
    outcome = block.outcomes[number] if number < len(block.outcomes) else None
    return "" if outcome is None else outcome.value


def _safe(text: str) -> str:
    return text if isinstance(text, Html) else escape(printable(text))
