"""Words in memory: numbers with one dictionary a column, the same words as in the files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from building import make_run, metric_row
from hypothesis import given
from hypothesis import strategies as st

from probe.read.columns import arrow_schema
from probe.read.run import load_run
from probe.read.words import (
    WORDS,
    join,
    number_words,
    plain_schema,
    repeat_word,
    spell_out,
    spelled_bytes,
)
from probe.schema.layout import TABLES_DIR
from probe.schema.tables import METRICS
from probe.seal import seal_run

Words = list[str | None]
some_words = st.lists(st.none() | st.text(max_size=3), max_size=6)


def coded(words: Words) -> pa.Table:
    return pa.table(
        {"name": pa.array(words, WORDS), "value": pa.array(range(len(words)), pa.int64())}
    )


@given(st.lists(some_words, min_size=1, max_size=4))
def test_words_of_several_parts_keep_their_rows_and_share_their_numbers(parts: list[Words]) -> None:
    together = [word for part in parts for word in part]
    joined = join([coded(part) for part in parts])
    assert joined["name"].to_pylist() == together
    assert spell_out(joined)["name"].to_pylist() == together
    assert spell_out(joined).schema.field("name").type == pa.string()
    # Arrow groups rows only where a word has one number throughout.
    counts = joined.group_by("name").aggregate([("value", "count")])
    assert counts.num_rows == len(set(together))


@given(some_words)
def test_anything_that_can_be_a_word_becomes_one(words: Words) -> None:
    plain = pa.chunked_array([pa.array(words, pa.string())])
    for column in (plain, plain.cast(pa.binary()), plain.cast(WORDS), plain.dictionary_encode()):
        assert number_words(column).type == WORDS
        assert number_words(column).to_pylist() == words


@pytest.mark.parametrize("word", [None, "", "forward"])
@pytest.mark.parametrize("count", [0, 3])
def test_a_column_of_one_word(word: str | None, count: int) -> None:
    assert repeat_word(word, count).type == WORDS
    assert repeat_word(word, count).to_pylist() == [word] * count


@given(some_words)
def test_what_words_take_is_what_they_take_spelled_out(words: Words) -> None:
    column = pa.chunked_array([pa.array(words, WORDS)])
    spelled = sum(len(word.encode()) for word in words if word)
    assert spelled_bytes(pa.table([column], ["name"])) == spelled


@pytest.mark.parametrize("number", [-1, 2, 2**31 - 1])
def test_a_number_of_no_word_is_refused(number: int) -> None:
    numbers = pa.array([0, number], pa.int32())
    column = pa.DictionaryArray.from_arrays(numbers, ["a", "b"], safe=False)
    with pytest.raises(ValueError, match="not among its 2"):
        spelled_bytes(pa.table([column], ["name"]))


def test_words_that_are_no_text_make_a_problem(tmp_path: Path) -> None:
    """Parquet says that bytes are text; nobody has checked it."""
    run_dir = make_run(tmp_path, {0: [metric_row(0)]})
    seal_run(run_dir)
    path = run_dir / TABLES_DIR / METRICS.sealed_name
    row = pq.read_table(path)
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    row = row.set_column(row.schema.get_field_index("name"), "name", bad)
    pq.write_table(row, path)
    loaded = load_run(run_dir).table(METRICS)
    assert loaded.table.num_rows == 0
    assert any("is no readable Parquet file" in problem.what for problem in loaded.problems)


def test_a_data_frame_holds_plain_words(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, {0: [metric_row(0)]})
    loaded = load_run(run_dir).table(METRICS)
    assert loaded.table.schema.field("name").type == WORDS
    assert loaded.frame()["name"].map(type).tolist() == [str]


def test_files_hold_plain_words() -> None:
    schema = plain_schema(arrow_schema(METRICS))
    assert schema.names == arrow_schema(METRICS).names
    assert schema.field("name").type == pa.string()
