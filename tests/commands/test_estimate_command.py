import json

import pytest

from probe.__main__ import main


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


SHAPE = ["--layers", "32", "--hidden", "4096", "--heads", "32", "--sequence", "2048"]

TABLE = """\
7.00 B parameters, bf16, 8 ranks; GB of one rank

stage  offload    states  activ.  working   total  on host  sent/step  fits
    0  –          112.00   30.60        0  142.60        0      24.50  no
    1  –           38.50   30.60        0   69.10        0      24.50  yes
    1  optimizer   28.00   30.60        0   58.60    10.50      24.50  yes
    2  –           26.25   30.60     2.00   58.85        0      24.50  yes
    2  optimizer   14.00   30.60     2.00   46.60    12.25      24.50  yes
    3  –           14.00   30.60     2.88   47.48        0      36.75  yes
    3  optimizer    1.75   30.60     2.88   35.23    12.25      36.75  yes
    3  all             0   30.60     2.88   33.48    14.00      36.75  yes

States are exact for Adam; working memory (buckets, gathered blocks) is a bound.
Activations: 30.60 GB (28.50 GiB).
In 80.00 GB, stage 1 fits with the least to send and to move.
"""


def test_the_table_fits_80_columns(capsys):
    arguments = ["estimate", "--params", "7e9", "--world", "8", "--device-memory", "80GB", *SHAPE]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed == TABLE
    assert max(map(len, printed.split("\n"))) <= 80


def test_json_is_exact(capsys):
    assert main(["estimate", "--params", "7B", "--world", "8", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    totals = [row["states_bytes"] for row in rows if row["offload_optimizer"] == "device"]
    assert totals == [112 * 10**9, 38_500_000_000, 26_250_000_000, 14 * 10**9]
    assert rows[0]["states"] == {
        "device": {
            "params": 14 * 10**9,
            "grads": 14 * 10**9,
            "master_params": 28 * 10**9,
            "optimizer_states": 56 * 10**9,
        }
    }


def test_small_models_are_told_in_smaller_units(capsys):
    assert main(["estimate", "--params", "20M", "--world", "1"]) == 0
    printed = capsys.readouterr().out
    assert "20.0 M parameters, bf16, 1 rank; MB of one rank" in printed
    assert "320.00" in printed
    assert "give --layers --hidden --heads --sequence" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--params", "many"], "'many' is no count; write it as 7e9, 7B or 350M."),
        (["--params", "0"], "'0' is out of range for a count"),
        (["--params", "7B", "--device-memory", "80 apples"], "'80 apples' is no size"),
        (["--params", "7B", "--hidden", "8"], "--layers, --heads, --sequence are missing"),
        (["--params", "7B", "--vocabulary", "8"], "Activations need the whole shape"),
    ],
)
def test_a_wrong_call_is_explained(arguments, said, capsys):
    assert main(["estimate", "--world", "2", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "meant"), [("80GB", 80 * 10**9), ("80GiB", 80 * 2**30), ("1.5e3 MB", 15 * 10**8)]
)
def test_sizes_as_people_write_them(written, meant, capsys):
    call = ["estimate", "--params", "7B", "--world", "2", "--device-memory", written, "--json"]
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["device_memory_bytes"] == meant
