"""A comparison as Markdown for a pull request: the verdict and the tables, the rest folded away.

Texts of a run stand in code spans, so that no name becomes a link, an image or a mention.
"""

from collections.abc import Iterator

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.gate import GateReport
from probe.analyse.compare.next_looks import next_looks
from probe.text.comparison_blocks import (
    Block,
    differences_block,
    gate_block,
    measures_block,
    names_block,
    runs_block,
    sentences_block,
)
from probe.text.comparison_parts import (
    exchanges_block,
    losses_block,
    memory_block,
    operators_block,
    traffic_block,
    waterfall_block,
)
from probe.text.comparison_words import judgement_sentence, verdict_sentence


def comparison_markdown(comparison: Comparison, report: GateReport) -> str:
    """The whole comparison; ends with a newline."""
    parts: list[str] = []
    for pair in comparison.pairs:
        parts.append(f"### {pair.second} against {pair.first}")
        parts.append(f"**{escape(verdict_sentence(pair, material=comparison.material))}**")
        parts.append(escape(judgement_sentence(pair)))
    gate = gate_block(report, several=len(comparison.pairs) > 1)
    if gate.rows:
        parts += _block(gate)
    parts += _block(runs_block(comparison))
    for pair in comparison.pairs:
        parts += _block(measures_block(pair))
        parts += _folded(pair, comparison)
    parts += _folded_lines("Runs and counted steps", names_block(comparison))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """A text with everything that Markdown or HTML would read as more than text taken back."""
    for sign, shown in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, shown)
    return "".join(f"\\{sign}" if sign in "\\`*_[]|~#@" else sign for sign in text)


def _folded(pair: Pair, comparison: Comparison) -> Iterator[str]:
    blocks = [
        differences_block(pair),
        waterfall_block(pair),
        memory_block(pair),
        traffic_block(pair),
        exchanges_block(pair),
        operators_block(pair),
        losses_block(comparison, pair),
        sentences_block("Keep in mind", pair.caveats),
        sentences_block("Look next", next_looks(pair)),
    ]
    inner = [part for block in blocks for part in _block(block)]
    yield "<details><summary>Where it comes from</summary>"
    yield from inner
    yield "</details>"


def _folded_lines(title: str, block: Block) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield from _block(block)
    yield "</details>"


def _block(block: Block) -> Iterator[str]:
    if not block.rows and not block.below:
        return
    if block.title:
        yield f"**{block.title}**"
    if block.rows:
        ends = ["---:" if index in block.right else "---" for index in range(len(block.headings))]
        rows = [block.headings, tuple(ends), *block.rows]
        yield "\n".join(_row(row, plain=index == 1) for index, row in enumerate(rows))
    if block.below:
        yield "\n".join(f"- {escape(sentence.strip())}" for sentence in block.below)


def _row(cells: tuple[str, ...], *, plain: bool) -> str:
    return f"| {' | '.join(cells if plain else map(escape, cells))} |"
