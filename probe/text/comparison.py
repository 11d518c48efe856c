"""A comparison in the terminal: verdict first, then the runs, then where the difference comes from.

Nothing hangs on colour: every verdict is a word.
"""

import textwrap
from collections.abc import Iterator

from rich.text import Text

from probe.analyse.compare.comparison import Comparison, Pair
from probe.analyse.compare.gate import GateReport
from probe.analyse.compare.measure import Outcome
from probe.analyse.compare.next_looks import next_looks
from probe.text.aligned import Cell, align
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

_STYLE = {Outcome.BETTER: "green", Outcome.WORSE: "bold red", Outcome.NEUTRAL: ""}
_GLUE = "\0"
"""A blank that no line breaks at; texts of a run hold none, for they were made printable."""


def comparison_lines(
    comparison: Comparison, report: GateReport, *, columns: int = 80
) -> list[Text]:
    """All lines, none longer than the columns except where a row needs it."""
    blocks = [names_block(comparison), runs_block(comparison, columns=columns)]
    lines: list[Text] = []
    for block in blocks:
        lines += [*_lines(block, columns), Text()]
    for pair in comparison.pairs:
        if len(comparison.pairs) > 1:
            lines += [Text(f"{pair.second} against {pair.first}", style="bold underline"), Text()]
        lines += _head(comparison, pair, columns)
        for block in _pair_blocks(comparison, pair):
            if block.rows or block.below:
                lines += [Text(), *_lines(block, columns)]
        lines.append(Text())
    gate = gate_block(report, several=len(comparison.pairs) > 1)
    lines += [*_lines(gate, columns), Text()] if gate.rows else []
    return lines[:-1]


def _head(comparison: Comparison, pair: Pair, columns: int) -> Iterator[Text]:
    for sentence in (
        judgement_sentence(pair),
        verdict_sentence(pair, material=comparison.material),
    ):
        yield from (Text(line, style="bold") for line in _wrapped(sentence, columns))


def _pair_blocks(comparison: Comparison, pair: Pair) -> list[Block]:
    return [
        differences_block(pair),
        measures_block(pair),
        waterfall_block(pair),
        memory_block(pair),
        traffic_block(pair),
        exchanges_block(pair),
        operators_block(pair),
        losses_block(comparison, pair),
        sentences_block("Keep in mind", pair.caveats),
        sentences_block("Look next", next_looks(pair)),
    ]


def _lines(block: Block, columns: int) -> Iterator[Text]:
    if block.title:
        yield Text(block.title, style="bold")
    if block.rows:
        cells: list[list[Cell]] = [list(row) for row in block.rows]
        for row, outcome in zip(cells, block.outcomes, strict=False):
            row[-1] = Text(str(row[-1]), style=_STYLE[outcome] if outcome else "")
        head, *below = align([block.headings, *cells], right=block.right)
        head.stylize("dim")
        yield head
        yield from below
    for sentence in block.below:
        yield from map(Text, _wrapped(sentence, columns))


def _wrapped(sentence: str, columns: int) -> list[str]:
    """Lines of a sentence, indented as it is; a number keeps its percent sign."""
    indent = " " * (len(sentence) - len(sentence.lstrip()))
    lines = textwrap.wrap(sentence.replace(" %", f"{_GLUE}%"), columns, subsequent_indent=indent)
    return [line.replace(_GLUE, " ") for line in lines]
