"""Tables of pages: numbers sort as numbers, and no column is lost."""

from streamlit.testing.v1 import AppTest

from probe.text.comparison_blocks import Block

BLOCK = Block(
    title="Held",
    headings=("category", "held", "theory", "late", "theory"),
    rows=(
        ("params", "9.00 MB", "8.00 MB", "–", "1 of 2"),
        ("grads", "1.20 GB", "1.10 GB", "3 ms", "2 of 2"),
        ("other", "–", "", "nan", ""),
    ),
    right=frozenset({1, 2, 3}),
)


def page() -> None:
    from app.drawing import table
    from tests.app.test_tables import BLOCK

    table(BLOCK, key="held")


def test_numbers_sort_as_numbers_and_show_their_texts() -> None:
    shown = AppTest.from_function(page).run()
    assert not shown.exception
    (frame,) = shown.dataframe
    held = frame.value["1"]
    assert list(held.sort_values().index) == [0, 1, 2]
    assert held[1] == 1.2e9
    assert "1.20 GB" in frame.proto.arrow_data.styler.display_values.decode("latin-1")


def test_columns_of_one_name_both_stay_and_texts_stay_texts() -> None:
    (frame,) = AppTest.from_function(page).run().dataframe
    assert list(frame.value["4"]) == ["1 of 2", "2 of 2", ""]
    assert list(frame.value["3"]) == ["–", "3 ms", "nan"], "nan and missing are two things"
    assert list(frame.value.columns) == ["0", "1", "2", "3", "4"]
