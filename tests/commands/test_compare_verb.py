"""`probe compare` on runs made by the real writers, whose differences were put there."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from probe.commands.compare import split_sides
from probe.errors import UsageError
from probe.record.rank import RankWriter
from probe.record.run import RunWriter
from probe.schema.documents import Header, ModelFacts
from probe.schema.vocabulary import Precision, RunStatus
from probe.seal import seal_run
from tests.analyse.compared import manifest, rows_of_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two starts of one program, a slower one with another precision, and another model."""
    folder = tmp_path_factory.mktemp("compare") / "runs"
    record(folder, "base", seal=True)
    record(folder, "again", seed=1)
    record(
        folder,
        "slow",
        facts={"precision": Precision.BF16},
        seed=2,
        backward_ms=60,
        skipped=(50,),
        loss_from=90,
    )
    record(folder, "short", seed=3, steps=25, noise=0.2)
    record(folder, "other", facts={"model": ModelFacts(name="gpt", param_elements=5)}, steps=20)
    return folder


def record(folder: Path, name: str, *, facts=None, seal=False, **rows):
    run = RunWriter.create(folder, manifest(**(facts or {})))
    tables = rows_of_run(**{"steps": 120, **rows})
    for rank in range(2):
        writer = RankWriter(run.path, Header(rank=rank))
        for by_rank in tables.values():
            for row in by_rank.get(rank, ()):
                writer.write(row)
        writer.close()
    run.finish(RunStatus.FINISHED, {0: 0, 1: 0})
    path = run.path.rename(run.path.with_name(name))
    if seal:
        seal_run(path)


def test_the_terminal_shows_all_in_80_columns(runs, probe):
    answer = probe("compare", "base", "slow", "--runs-dir", runs)
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.split("\n"))) <= 80
    for line in (
        "A  base",
        "INTENDED CHANGE: precision.",
        "differs   in                A     B",
        "intended  config.precision  fp16  bf16",
        "Where the time went",
        "Memory of the fullest rank at its peak",
        "Communication of a rank in a step",
        "Losses",
        "Equal to the bit in 90 of 120 common steps; they part in step 90.",
        "One run a side: how much runs vary by themselves is unknown. Repeat both.",
        "Look next",
        "Losses are apart from step 90 on (precision differs).",
    ):
        assert line in answer.out.split("\n")
    assert "B is slower than A: step time 100 ms → 110 ms, +" in answer.out


def test_traffic_stands_beside_theory(runs, probe):
    answer = probe("compare", "base", "slow", "--runs-dir", runs)
    told = answer.out.split("\n")
    at = told.index("Payload of a rank in a step")
    # A million trained parameters in two bytes each; the rows name fp16 in both.
    assert told[at + 1 : at + 3] == [
        "exchange         A   theory        B   theory",
        "reduction  2.00 MB  2.00 MB  2.00 MB  2.00 MB",
    ]


def test_equal_starts_say_so(runs, probe):
    answer = probe("compare", "base", "base", "--runs-dir", runs)
    assert "COMPARABLE.\nB is as fast as A within ±2.0 %" in answer.out
    assert "Look next" not in answer.out


KEYS = {
    "": ["comparison", "look_next", "gate"],
    "comparison": ["material", "confidence", "runs", "pairs"],
    "comparison.runs.0": [
        "side",
        "name",
        "path",
        "status",
        "precision",
        "stage",
        "offload_optimizer",
        "offload_params",
        "world_size",
        "recorded_steps",
        "counted_steps",
        "excluded",
        "step_time_ns",
        "step_time_reach",
        "noise",
        "autocorrelation",
        "effective_steps",
        "throughput",
        "throughput_of",
        "peak_memory_bytes",
        "final_loss",
        "metrics",
        "skipped_steps",
        "step_time_outline",
        "loss_outline",
    ],
    "comparison.pairs.0": [
        "first",
        "second",
        "comparability",
        "headline",
        "measures",
        "waterfall",
        "memory",
        "traffic",
        "exchanges",
        "operators",
        "losses",
        "caveats",
    ],
    "comparison.pairs.0.comparability": ["judgement", "reasons", "differences"],
    "comparison.pairs.0.comparability.differences.0": [
        "name",
        "first",
        "second",
        "kind",
        "why",
        "effects",
    ],
    "comparison.pairs.0.headline": [
        "name",
        "unit",
        "of",
        "first",
        "second",
        "relative",
        "change",
        "first_noise",
        "second_noise",
        "first_effective",
        "second_effective",
        "verdict",
        "outcome",
    ],
    "comparison.pairs.0.headline.change": [
        "ratio",
        "low",
        "high",
        "standard_error",
        "degrees",
        "between_runs",
        "history",
        "runs",
        "direction",
        "more_steps",
        "more_runs",
    ],
    "comparison.pairs.0.waterfall": ["first_ns", "second_ns", "phases"],
    "comparison.pairs.0.losses": [
        "common_steps",
        "equal_steps",
        "first_unequal_step",
        "first_apart_step",
        "last_common_step",
        "last_first",
        "last_second",
    ],
    "gate": ["end", "exit_code", "outcomes"],
    "gate.outcomes.0": [
        "pair",
        "condition",
        "result",
        "found",
        "low",
        "high",
        "reason",
        "probability",
    ],
}


def test_json_has_the_keys_that_it_promises(runs, probe):
    answer = probe(
        "compare", "base", "slow", "--runs-dir", runs, "--json", "--fail-if", "step_time>+5%"
    )
    document = json.loads(answer.out)
    assert answer.out.isascii()
    for path, keys in KEYS.items():
        assert list(at(document, path)) == keys, path
    assert answer.code == document["gate"]["exit_code"] == 1
    headline = document["comparison"]["pairs"][0]["headline"]
    assert (headline["name"], headline["verdict"]) == ("step_time", "slower")
    assert headline["relative"] == pytest.approx(0.1, abs=0.01)


def at(document, path):
    for key in filter(None, path.split(".")):
        document = document[int(key)] if key.isdigit() else document[key]
    return document


def test_terminal_and_json_tell_the_same(runs, probe):
    told = json.loads(probe("compare", "base", "slow", "--runs-dir", runs, "--json").out)
    (pair,) = told["comparison"]["pairs"]
    shown = probe("compare", "base", "slow", "--runs-dir", runs).out
    for sentence in (*pair["caveats"], *told["look_next"]["A-B"]):
        assert sentence in shown.replace("\n", " ")
    for item in pair["measures"]:
        assert item["verdict"] in shown


def test_markdown_is_for_a_pull_request(runs, probe):
    answer = probe("compare", "base", "slow", "--runs-dir", runs, "--md", "--fail-if", "skipped>0")
    assert answer.code == 1
    assert answer.out.startswith("### B against A\n\n**B is slower than A: step time")
    assert "| skipped&gt;0 | 1 | failed |" in answer.out
    assert answer.out.count("<details>") == answer.out.count("</details>") == 2
    for block in answer.out.split("\n\n"):
        rows = [line for line in block.split("\n") if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) <= 1


def test_markdown_takes_no_markup_from_a_run(runs, probe, tmp_path):
    evil = "<img src=x>|`@all`[x](http://e)"
    record(tmp_path, "evil", facts={"versions": {"torch": evil}}, steps=20)
    out = probe("compare", runs / "base", tmp_path / "evil", "--md").out
    assert "<img" not in out
    assert "\\@" in out or "@all" not in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["base", "again", "--fail-if", "step_time>+5%,skipped>0", "--strict"], 0),
        (["base", "slow", "--fail-if", "step_time>+5%"], 1),
        (["base", "slow", "--fail-if", "speed>+5%"], 2),
        (["base", "other"], 3),
        (["base", "short", "--fail-if", "step_time<-5%", "--strict"], 4),
    ],
)
def test_exit_codes_of_the_process(runs, probe_process, arguments, code):
    done = probe_process("compare", *arguments, PROBE_RUNS=str(runs))
    assert done.returncode == code, done.stderr
    assert (done.stdout == "") is (code == 2)
    assert (done.stderr == "") is (code != 2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["base", "again"], 0),
        (["base"], 2),
        (["base", "absent"], 2),
        (["base", "other", "--fail-if", "skipped>0"], 3),
        (["base", "other", "--intended", "model.*"], 0),
        (["base", "short", "--fail-if", "step_time<-5%"], 0),
    ],
)
def test_exit_codes(runs, probe, arguments, code):
    assert probe("compare", *arguments, "--runs-dir", runs).code == code


def test_several_runs_a_side(runs, probe_process):
    done = probe_process(
        "compare", "--json", "base", "again", "--", "slow", "slow", "--fail-if", "step_time>+1%",
        PROBE_RUNS=str(runs),
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert [run["side"] for run in told["comparison"]["runs"]] == ["A", "A", "B", "B"]
    assert told["comparison"]["pairs"][0]["headline"]["change"]["runs"] == [2, 2]
    assert done.returncode == 1


def test_sides_are_split_at_marks():
    mark = "\0side"
    assert split_sides(("a", "b", "c")) == [["a"], ["b"], ["c"]]
    assert split_sides(("a", "b", mark, "c")) == [["a", "b"], ["c"]]
    assert split_sides(("a", mark, "b", mark, "c", "d")) == [["a"], ["b"], ["c", "d"]]
    for wrong in ((), ("a",), ("a", mark), (mark, "a"), ("a", mark, mark, "b")):
        with pytest.raises(UsageError):
            split_sides(wrong)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gate.toml", 'fail-if = ["step_time>+5%", "skipped>0"]'),
        ("gate.toml", '[fail-if]\nstep_time = ">+5%"\nskipped = ">0"'),
        ("gate.json", '{"fail-if": {"step_time": ">+5%", "skipped": ">0"}}'),
    ],
)
def test_a_gate_from_a_file(runs, probe, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    answer = probe("compare", "base", "slow", "--runs-dir", runs, "--gate", tmp_path / name)
    assert answer.code == 1
    assert answer.out.count("failed") == 2


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gate.toml", "fail-if = ", "is no TOML"),
        ("gate.json", "[", "is no JSON"),
        ("gate.json", "[1]", "states no gate"),
        ("gate.toml", "x = 1", "states no gate"),
    ],
)
def test_a_damaged_gate_file_is_explained(runs, probe, tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    answer = probe("compare", "base", "slow", "--runs-dir", runs, "--gate", tmp_path / name)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_the_example_of_the_help_is_a_call_that_works(runs, probe, monkeypatch):
    monkeypatch.setenv("PROBE_RUNS", str(runs))
    (line,) = [line for line in probe("compare", "--help").out.split("\n") if "Example: " in line]
    assert probe(*shlex.split(line.partition("Example: probe ")[2])).code == 0


def test_forms_exclude_each_other(runs, probe):
    answer = probe("compare", "base", "slow", "--runs-dir", runs, "--md", "--json")
    assert answer.code == 2
    assert "choose one" in answer.err


def test_damaged_files_are_told_and_the_rest_compared(runs, probe, tmp_path):
    record(tmp_path, "damaged", steps=40)
    lines = (tmp_path / "damaged/rank_00000/steps.jsonl").read_bytes().split(b"\n")
    lines[7] = b"{"
    (tmp_path / "damaged/rank_00000/steps.jsonl").write_bytes(b"\n".join(lines))
    answer = probe("compare", runs / "base", tmp_path / "damaged")
    assert answer.code == 0
    assert "B has 1 problem in its files; `probe doctor` tells which." in answer.out
    assert "39 of 40 steps count (1 incomplete left out)" in answer.out


def test_comparing_loads_nothing_of_training_or_pages(runs):
    program = (
        "import sys; from probe.__main__ import main;"
        f" main(['compare', 'base', 'slow', '--runs-dir', {str(runs)!r}]);"
        " print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not {"torch", "streamlit", "plotly"} & set(done.stderr.split())


def test_a_name_that_acts_is_shown_and_not_obeyed(runs, probe, tmp_path):
    record(tmp_path, "evil", facts={"versions": {"torch\x1b[2J": "1"}}, steps=20)
    out = probe("compare", runs / "base", tmp_path / "evil").out
    assert "\x1b" not in out
    assert "\\x1b[2J" in out
