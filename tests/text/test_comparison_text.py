"""Whole comparisons as literal text, 80 columns wide."""

from dataclasses import replace

import pytest

from probe.analyse.compare.comparison import compare_runs
from probe.analyse.compare.conditions import parse_conditions
from probe.analyse.compare.gate import judge
from probe.analyse.compare.operator_shifts import TracedTime
from probe.schema.documents import HostFacts
from probe.schema.vocabulary import Precision
from probe.text.comparison import comparison_lines
from probe.text.comparison_blocks import format_change, measures_block, runs_block
from probe.text.comparison_markdown import comparison_markdown, escape
from probe.text.comparison_parts import waterfall_block
from probe.text.sparkline import share_bar, sparkline
from tests.analyse.compared import made_run


@pytest.fixture(scope="module")
def comparison():
    first = made_run("base", noise=0, profiled=(30, 31), skipped=(40,))
    second = made_run(
        "stage3-bf16",
        noise=0,
        backward_ms=54,
        wait_ms=13,
        params_bytes=1_000_000,
        wire_bytes=1_500_000,
        loss_from=120,
        accuracy=0.91,
        facts={
            "stage": 3,
            "precision": Precision.BF16,
            "hosts": [HostFacts(name="node2", cores=8)],
        },
    )
    return compare_runs([[first], [second]])


GATE = "step_time>+5%,peak_memory>+2%,skipped>0,wire_bytes>+600kB"

WHOLE = """\
A  base
   197 of 200 steps count (2 profiled, 1 skipped left out); worth 197
   independent, noise 0.0 %
B  stage3-bf16
   200 of 200 steps count; worth 200 independent, noise 0.0 %

run  prec  zero  ms/step      ±  peak mem  samples/s   loss  accuracy  skips
A    fp16     2    100.0  0.0 %   5.00 MB        160  1.028       0.9      1
B    bf16     3    107.0  0.0 %   4.00 MB        150  1.543      0.91      0

INTENDED CHANGE: precision, ZeRO stage.
B is slower than A: step time 100 ms → 107 ms, +7.0 % (95 %: +7.0 … +7.0 %).

differs   in                A      B
intended  config.precision  fp16   bf16
intended  config.stage      2      3
nuisance  hosts.name        node1  node2

measure             A        B    change    95 % interval  verdict
step time      100 ms   107 ms    +7.0 %    +7.0 … +7.0 %  slower
samples/s         160      150    -6.5 %    -6.5 … -6.5 %  slower
exposed time  10.0 ms  13.0 ms   +30.0 %  +30.0 … +30.0 %  more
peak memory   5.00 MB  4.00 MB   -20.0 %                   less
host memory   1.00 GB  1.00 GB       0 %                   equal
wire bytes    1.00 MB  1.50 MB   +50.0 %                   more
skipped             1        0  -100.0 %                   less
loss scale      1,024    1,024       0 %                   equal
final loss      1.028    1.543   +50.1 %                   more
accuracy          0.9     0.91    +1.1 %                   more

Where the time went
phase              A        B  difference
forward      30.0 ms  30.0 ms        0 ns
backward     50.0 ms  54.0 ms    +4.00 ms  ████████████████
reduce wait  10.0 ms  13.0 ms    +3.00 ms  ████████████
optimizer    10.0 ms  10.0 ms        0 ns
sum           100 ms   107 ms    +7.00 ms
Means over the middle half of the steps, of the slowest rank in each.

Memory of the fullest rank at its peak
category             A   theory        B   theory  difference
params         2.00 MB  2.00 MB  1.00 MB  1.00 MB    -1.00 MB
grads              0 B  1.00 MB      0 B  1.00 MB         0 B
master params      0 B  2.00 MB      0 B  2.00 MB         0 B
activations    3.00 MB        –  3.00 MB        –         0 B

Communication of a rank in a step
operation                        A sent   B sent  A exposed  B exposed
reduce scatter (as all to all)  1.00 MB  1.50 MB    10.0 ms    13.0 ms

Payload of a rank in a step
exchange         A   theory        B   theory
reduction  2.00 MB  2.00 MB  3.00 MB  2.00 MB

Losses
   loss over the run         step 199
A  █▆▅▄▃▃▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁     1.021
B  █▆▅▄▃▃▂▂▂▂▁▁▁▁▂▂▂▂▂▂▁▁▁▁     1.531
Equal to the bit in 120 of 200 common steps; they part in step 120.
Apart by more than 1 % from step 120.

Keep in mind
Machine, versions or surroundings differ: times may for their sake.
One run a side: how much runs vary by themselves is unknown. Repeat both.

Look next
Backward makes 57.1 % of the difference: the operators of the backward pass, and
recomputation.
Losses are apart from step 120 on (precision differs).
Memory moved most in device params.

Gate
fails if           found                   result
step_time>+5%      +7.0 % (+7.0 … +7.0 %)  failed
peak_memory>+2%    -20.0 %                 passed
skipped>0          0                       passed
wire_bytes>+600kB  +500 kB                 passed
"""


def test_a_comparison_fits_80_columns(comparison, shown):
    report = judge(comparison, parse_conditions(GATE))
    text = shown(comparison_lines(comparison, report))
    assert text == WHOLE
    assert max(map(len, text.split("\n"))) <= 80


def test_markdown_has_the_same_figures(comparison):
    markdown = comparison_markdown(comparison, judge(comparison, parse_conditions(GATE)))
    (pair,) = comparison.pairs
    for block in (runs_block(comparison), measures_block(pair), waterfall_block(pair)):
        for row in block.rows:
            assert f"| {' | '.join(map(escape, row))} |" in markdown.split("\n")


def test_markdown_escapes_what_acts():
    assert escape("a_b*c|`d`<e>@f#1") == "a\\_b\\*c\\|\\`d\\`&lt;e&gt;\\@f\\#1"


@pytest.mark.parametrize(
    ("relative", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.053, "+5.3 %"),
        (-0.2, "-20.0 %"),
        (0.0001, "+<0.1 %"),
        (-0.0001, ">-0.1 %"),
        (8.9, "+890.0 %"),
        (9.0, "10.0×"),
        (2.0**20 - 1, "1.05 M×"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_changes_have_a_sign(relative, text):
    assert format_change(relative) == text.replace("+<", "<")


def test_many_and_long_metrics_keep_the_table_narrow(shown):
    names = {f"metric {number} of many {'x' * number}": float(number) for number in range(30)}
    run = replace(made_run("base", noise=0), metrics=names)
    comparison = compare_runs([[run], [run]])
    text = shown(comparison_lines(comparison, judge(comparison, ())))
    assert "… and 18 more metrics; --json lists all." in text
    assert "metric 11 of many xxx…" in text
    assert max(map(len, text.split("\n"))) <= 80


def test_operators_that_moved_have_a_table(shown):
    first = TracedTime(kernels={}, operators={"aten::mm": (4, 8e6)})
    second = TracedTime(
        kernels={}, operators={"aten::mm": (4, 9.5e6), "void " + "k" * 99: (1, 5e5)}
    )
    runs = [replace(made_run("run", noise=0), traced=traced) for traced in (first, second)]
    comparison = compare_runs([[run] for run in runs])
    text = shown(comparison_lines(comparison, judge(comparison, ())))
    assert OPERATORS in text


OPERATORS = """\
Operators that moved most, a step of the profiled window
operator                      A calls  B calls    A own    B own  difference
aten::mm                            4        4  8.00 ms  9.50 ms    +1.50 ms
void kkkkkkkkkkkkkkkkkkkkkk…        0        1     0 ns   500 µs     +500 µs
"""


def test_sparklines():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5]) == "▁▁▁"
    assert sparkline([1, float("nan"), 2]) == "▁·█"
    assert sparkline([float("nan")]) == "·"
    assert sparkline([]) == ""
    assert sparkline([1, 2], low=0, high=4) == "▃▅"


def test_bars():
    assert share_bar(4, 4, width=3) == "███"
    assert share_bar(-2, 4, width=3) == "█▌"
    assert share_bar(0.001, 4, width=3) == "▏"
    assert share_bar(0, 4, width=3) == ""
