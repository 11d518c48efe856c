"""What each view looks like, to the letter."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from probe.analyse.steps.headline import Headline, Peak
from probe.export import ExportedTable
from probe.read.discovery import RunSummary
from probe.read.problem import Problem
from probe.read.run import Run
from probe.read.status import RankEvidence, Verdict
from probe.schema.documents import (
    DeviceFacts,
    GitFacts,
    Header,
    Manifest,
    ModelFacts,
    RunConfig,
)
from probe.schema.tables import COMM, STEPS
from probe.schema.vocabulary import Precision, RunStatus, Severity, Tier
from probe.seal import SealedTable, SealReport
from probe.text.file_report import export_report, seal_report
from probe.text.gaps import gap_sentences
from probe.text.problem_list import problem_list
from probe.text.run_detail import run_detail
from probe.text.run_list import run_list

Shown = Callable[[Any], str]
NOW_NS = 1_800_000_000 * 10**9
MINUTE_NS = 60 * 10**9
HOSTILE = "evil\x1b[2J\n[red]\u202e"


def problem(severity: Severity = Severity.ERROR, **facts: Any) -> Problem:
    return Problem(
        **({"severity": severity, "file": "a", "what": "is bad", "hint": "Mend it."} | facts)
    )


def summary(name: str, **facts: Any) -> RunSummary:
    status = facts.pop("status", RunStatus.FINISHED)
    defaults = {
        "path": Path("runs") / name,
        "manifest": Manifest(),
        "verdict": Verdict(status=status, why="It is so."),
        "ranks": 1,
        "steps": 100,
        "started_ns": NOW_NS - 3 * MINUTE_NS,
        "problems": (),
    }
    return RunSummary(**(defaults | facts))


def manifest(world_size: int, **config: Any) -> Manifest:
    return Manifest(world_size=world_size, config=RunConfig(**config))


RUNS = [
    summary("plain"),
    summary(
        "z3-bf16",
        manifest=manifest(
            8,
            precision=Precision.BF16,
            stage=3,
            offload_optimizer=Tier.HOST,
            offload_params=Tier.HOST,
        ),
        ranks=6,
        steps=12_345,
        status=RunStatus.RUNNING,
        problems=(problem(Severity.WARNING),),
    ),
    summary(
        "broken",
        manifest=manifest(2, precision=Precision.AMP_FP16, offload_optimizer=Tier.DISK),
        ranks=2,
        steps=None,
        status=RunStatus.INTERRUPTED,
        started_ns=NOW_NS - 26 * 60 * MINUTE_NS,
        problems=(problem(), problem(), problem(Severity.WARNING)),
    ),
    summary("future", manifest=Manifest(format_version="9.1")),
]


def test_the_list_gives_each_run_a_line(shown: Shown) -> None:
    assert shown(run_list(RUNS, now_ns=NOW_NS, columns=80)) == (
        "name     status       prec      zero  offload   ranks   steps    age  health\n"
        "plain    finished     –            –  –             1     100  3 min  ok\n"
        "z3-bf16  running      bf16         3  all host    6/8  12.3 k  3 min  1 warn\n"
        "broken   interrupted  amp_fp16     –  opt disk      2       –    1 d  2 err\n"
        "future   finished     –            –  –             1     100  3 min  format 9.1\n"
    )


def test_names_take_a_line_of_their_own_where_room_is_scarce(shown: Shown) -> None:
    long_name = "20261104-101112-gpt2-zero3-offload"
    runs = [summary(long_name), summary("b")]
    assert shown(run_list(runs, now_ns=NOW_NS, columns=90)) == (
        "  status    prec  zero  offload  ranks  steps    age  health\n"
        "20261104-101112-gpt2-zero3-offload\n"
        "  finished  –        –  –            1    100  3 min  ok\n"
        "b\n"
        "  finished  –        –  –            1    100  3 min  ok\n"
    )
    assert shown(run_list(runs, now_ns=NOW_NS, columns=200)).count("\n") == 3


@pytest.mark.parametrize(
    ("optimizer", "params", "text"),
    [
        (Tier.DEVICE, Tier.DEVICE, "–"),
        (Tier.HOST, Tier.DEVICE, "opt host"),
        (Tier.DEVICE, Tier.HOST, "par host"),
        (Tier.DISK, Tier.DISK, "all disk"),
        (Tier.DISK, Tier.HOST, "mixed"),
    ],
)
def test_offload_in_a_word(optimizer: Tier, params: Tier, text: str, shown: Shown) -> None:
    run = summary("r", manifest=manifest(1, offload_optimizer=optimizer, offload_params=params))
    row = shown(run_list([run], now_ns=NOW_NS, columns=80)).split("\n")[1]
    assert f"  {text}  " in row


def test_a_hostile_name_is_shown_and_not_obeyed(shown: Shown) -> None:
    text = shown(run_list([summary(HOSTILE)], now_ns=NOW_NS, columns=80))
    assert "evil\\x1b[2J\\n[red]\\u202e" in text
    assert text.count("\n") <= 3
    assert "\x1b" not in text


def test_problems_have_place_and_remedy(shown: Shown) -> None:
    problems = [
        problem(file="rank_00002/steps.jsonl", line=31, what="is no steps row (bad byte)"),
        problem(Severity.WARNING, file="manifest.json", what="is missing", hint="word " * 20),
    ]
    assert shown(problem_list(problems, name="demo", checked="9 tables of 4 ranks")) == (
        "error    rank_00002/steps.jsonl:31\n"
        "         is no steps row (bad byte)\n"
        "         Mend it.\n"
        "\n"
        "warning  manifest.json\n"
        "         is missing\n"
        "         word word word word word word word word word word word word word word\n"
        "         word word word word word word\n"
        "\n"
        "demo: 1 error, 1 warning in 9 tables of 4 ranks.\n"
    )


def test_no_problems_is_said(shown: Shown) -> None:
    text = shown(problem_list([], name="demo", checked="9 tables of 1 rank"))
    assert text == "demo: no problems in 9 tables of 1 rank.\n"


def test_a_hostile_problem_is_shown_and_not_obeyed(shown: Shown) -> None:
    nasty = problem(file=HOSTILE, what=HOSTILE * 500, hint=HOSTILE)
    text = shown(problem_list([nasty], name=HOSTILE, checked="x"))
    assert "\x1b" not in text
    assert "[red]" in text
    assert "more characters)" in text
    assert len(text) < 3000


HEADLINE = Headline(
    recorded_steps=1_200,
    last_step=1_199,
    skipped_steps=3,
    profiled_steps=4,
    timed_steps=1_193,
    median_wall_ns=151_300_000.0,
    last_loss=2.34567,
    last_loss_step=1_199,
    loss_scale=65536.0,
    peak_device=Peak(rank=2, peak_bytes=14_000_000_000),
    peak_ledger=None,
    peak_rss=Peak(rank=0, peak_bytes=1_200_000_000),
    wire_bytes=280_000_000.0,
)
NOTHING = Headline(
    recorded_steps=0,
    last_step=None,
    skipped_steps=0,
    profiled_steps=0,
    timed_steps=0,
    median_wall_ns=None,
    last_loss=None,
    last_loss_step=None,
    loss_scale=None,
    peak_device=None,
    peak_ledger=None,
    peak_rss=None,
    wire_bytes=None,
)


def run_of(manifest: Manifest, name: str = "20261104-101112-demo", ranks: int = 4) -> Run:
    header = Header(host="node1")
    evidence = {
        rank: RankEvidence(header=header, heartbeat=None, touched_s=None) for rank in range(ranks)
    }
    return Run(
        path=Path("runs") / name,
        manifest=manifest,
        ranks=tuple(range(ranks)),
        evidence=evidence,
        verdict=Verdict(status=RunStatus.FAILED, why="Rank 1 ended with exit code 3."),
        problems=(),
    )


def test_a_run_in_detail(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "probe.text.run_detail.format_moment", lambda time_ns: "2027-01-15 08:57:00"
    )
    told = Manifest(
        name="demo",
        started_ns=NOW_NS - 3 * MINUTE_NS,
        ended_ns=NOW_NS - MINUTE_NS,
        command=["probe", "run", "train.py", "--note", "two words"],
        script="train.py",
        world_size=8,
        backend="nccl",
        expected_steps=2_000,
        config=RunConfig(precision=Precision.FP16, stage=2, offload_optimizer=Tier.HOST),
        model=ModelFacts(name="gpt2-xl", param_elements=1_557_611_200),
        devices=[DeviceFacts(name="NVIDIA H200", kind="cuda", count=8)],
        versions={"torch": "2.13.0"},
        git=GitFacts(commit="abcdef0123456789", branch="main", dirty=True),
        lost=["Rank 3 ran out of disk."],
    )
    view = run_detail(
        run_of(told),
        HEADLINE,
        analysis=[],
        table_rows={"steps": 4_800, "comm": 38_400, "overflow": 0},
        problems=[problem(), problem(Severity.WARNING)],
        now_ns=NOW_NS,
    )
    assert shown(view) == (
        "20261104-101112-demo  failed  Rank 1 ended with exit code 3.\n"
        "\n"
        "setup        fp16, ZeRO stage 2, optimizer on host\n"
        "world        4 of 8 ranks, on node1, 8× NVIDIA H200, nccl\n"
        "model        gpt2-xl, 1.56 B parameters\n"
        "started      2027-01-15 08:57:00, 3 min ago; took 2.00 min\n"
        "command      probe run train.py --note 'two words'\n"
        "code         train.py at abcdef012345 on main, with changes\n"
        "versions     torch 2.13.0\n"
        "lost         Rank 3 ran out of disk.\n"
        "\n"
        "steps        1,200 of 2,000 recorded, 3 skipped, 4 profiled\n"
        "step time    151 ms on the slowest rank (median of 1,193 steps)\n"
        "last loss    2.346 in step 1,199\n"
        "loss scale   65,536\n"
        "device peak  14.0 GB on rank 2\n"
        "host peak    1.20 GB on rank 0\n"
        "traffic      280 MB sent a step by the busiest rank (median)\n"
        "\n"
        "table          rows\n"
        "steps         4,800\n"
        "comm         38,400\n"
        "\n"
        "Not recorded: memory. A loop around `engine, optimizer, _, _ =\n"
        "engine.initialize(model=…, config=…)` records that too.\n"
        "\n"
        "1 error, 1 warning; `probe doctor` shows what and where.\n"
    )


def test_a_run_of_which_nothing_is_known(shown: Shown) -> None:
    view = run_detail(
        run_of(Manifest(), ranks=1),
        NOTHING,
        analysis=[],
        table_rows={"steps": 0},
        problems=[],
        now_ns=NOW_NS,
    )
    assert shown(view) == (
        "20261104-101112-demo  failed  Rank 1 ended with exit code 3.\n"
        "\n"
        "world        1 rank, on node1\n"
        "\n"
        "steps        0 recorded, 0 skipped\n"
        "\n"
        "No table has rows.\n"
        "\n"
        "No step was recorded: the script built no engine. Start from `engine, optimizer,\n"
        "_, _ = engine.initialize(model=…, config=…)`, or put `engine.watch(model,\n"
        "optimizer)` beside a loop of your own; until then only output, exit codes, time\n"
        "and memory are seen.\n"
    )


@pytest.mark.parametrize(
    ("lost", "remedy"),
    [
        (None, "the rest a watched loop does not tell."),
        (2.5, "A watched loop does not tell it."),
    ],
)
def test_a_watched_loop_is_not_told_to_become_another(lost: float | None, remedy: str) -> None:
    run = run_of(Manifest(recorder="torch 2.13.0", world_size=2))
    sentence, _ = gap_sentences(run, replace(HEADLINE, last_loss=lost), {"memory": 3})
    assert "what ranks exchange" in sentence
    assert sentence.endswith(remedy)
    assert "engine.initialize" not in sentence
    assert ("watch.step(loss)" in sentence) is (lost is None)


def test_a_hostile_manifest_is_shown_and_not_obeyed(shown: Shown) -> None:
    nasty = Manifest(
        name=HOSTILE,
        notes=HOSTILE * 100_000,
        tags=[HOSTILE] * 1000,
        command=[HOSTILE],
        model=ModelFacts(name=HOSTILE),
        versions={HOSTILE: HOSTILE},
        world_size=2**62,
        script=HOSTILE,
        lost=[HOSTILE] * 1000,
    )
    view = run_detail(
        run_of(nasty, HOSTILE), NOTHING, analysis=[], table_rows={}, problems=[], now_ns=NOW_NS
    )
    text = shown(view)
    assert "\x1b" not in text
    assert len(text) < 6000
    assert max(map(len, text.split("\n"))) <= 80


def test_the_seal_report(shown: Shown) -> None:
    report = SealReport(
        tables=(
            SealedTable(table=STEPS, rows=2_100, jsonl_bytes=1_080_000, parquet_bytes=95_000),
            SealedTable(table=COMM, rows=16_800, jsonl_bytes=3_600_000, parquet_bytes=96_800),
        ),
        kept=("rank_00000/steps.jsonl.damaged",),
    )
    assert shown(seal_report(report, name="demo")) == (
        "table    rows    JSONL  Parquet  ratio\n"
        "steps   2,100  1.08 MB  95.0 kB  11.4×\n"
        "comm   16,800  3.60 MB  96.8 kB  37.2×\n"
        "all    18,900  4.68 MB   192 kB  24.4×\n"
        "\n"
        "demo is sealed.\n"
        "rank_00000/steps.jsonl.damaged was kept: it holds lines that are no rows.\n"
    )


def test_a_seal_with_nothing_to_do(shown: Shown) -> None:
    text = shown(seal_report(SealReport(tables=(), kept=()), name="demo"))
    assert text == "demo was sealed already; there was nothing to do.\n"


def test_the_export_report(shown: Shown) -> None:
    written = ExportedTable(
        table=STEPS, path=Path("out/steps.csv"), rows=2_100, size_bytes=356_000, problems=()
    )
    assert shown(export_report([written])) == (
        "table   rows    size  file\nsteps  2,100  356 kB  out/steps.csv\n"
    )
    assert shown(export_report([])) == "No table of the run has rows; nothing was written.\n"
