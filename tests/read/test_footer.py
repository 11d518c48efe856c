"""The facts taken from a Parquet footer are those that Arrow finds, and any bytes are refused."""

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from building import make_run
from hypothesis import given
from hypothesis import strategies as st

from probe import seal
from probe.read.footer import read_footer
from probe.read.run import load_run
from probe.schema.layout import TABLES_DIR
from probe.schema.tables import METRICS, TABLES
from probe.seal import seal_run


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A row group for each of two ranks."""
    run_dir = make_run(tmp_path_factory.mktemp("runs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal, "FEWEST_ROWS_PER_GROUP", 1)
        seal_run(run_dir)
    return run_dir


def test_it_agrees_with_arrow(run_dir: Path) -> None:
    for table in TABLES:
        path = run_dir / TABLES_DIR / table.sealed_name
        arrow = pq.read_metadata(path)
        with path.open("rb") as file:
            groups = read_footer(file)
        assert len(groups) == arrow.num_row_groups == 2
        for number, group in enumerate(groups):
            theirs = arrow.row_group(number)
            assert group.rows == theirs.num_rows == 3
            assert len(group.columns) == theirs.num_columns
            for index, column in enumerate(group.columns):
                facts = theirs.column(index)
                assert column.name == facts.path_in_schema.split(".")[0]
                assert column.values == facts.num_values
                assert column.decoded_bytes == facts.total_uncompressed_size
            assert group.columns[0].lowest == group.columns[0].highest == bytes([number, 0, 0, 0])


def test_every_byte_of_a_footer_may_be_wrong(run_dir: Path) -> None:
    """Arrow's accessors would end the process at some of these."""
    path = run_dir / TABLES_DIR / METRICS.sealed_name
    content = path.read_bytes()
    size_bytes = int.from_bytes(content[-8:-4], "little")
    run = load_run(run_dir)
    for place in range(len(content) - 8 - size_bytes, len(content)):
        for mask in (0x01, 0x80):
            damaged = bytearray(content)
            damaged[place] ^= mask
            path.write_bytes(damaged)
            run.table(METRICS, ranks=[1])
    path.write_bytes(content)
    assert run.table(METRICS).problems == ()


@given(st.binary(max_size=300))
def test_any_footer_is_read_or_refused(footer: bytes) -> None:
    file = io.BytesIO(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    try:
        read_footer(file)
    except ValueError:
        return


@pytest.mark.parametrize(
    "footer",
    [
        b"\x1c" * 1000,  # structs in structs
        b"\x19" + b"\xf9" * 1000,  # lists in lists
        b"\x16" + b"\xff" * 1000,  # an endless number
        b"\x19\xfc\xff\xff\xff\xff\x0f" + b"\0" * 9,  # four milliards of structs
        b"\x19\xf7\xff\xff\xff\xff\x0f",  # four milliards of numbers of eight bytes
        b"\x18\xff\xff\xff\xff\x0f",  # four GB of text
    ],
)
def test_hostile_footers(footer: bytes) -> None:
    file = io.BytesIO(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="its footer"):
        read_footer(file)
