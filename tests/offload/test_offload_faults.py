"""What can be wrong with a disk is said with file and remedy, and nothing foreign is lost."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.storage.buffers import PAGE_BYTES
from engine.storage.disk import DiskPlace
from engine.storage.disk_file import DiskFile
from engine.storage.failures import DamagedRecordError, StorageError
from engine.storage.place import Item
from engine.storage.places import find_places
from engine.storage.traffic import Traffic
from engine.tracing import PhaseClock
from probe.errors import UsageError
from probe.schema.vocabulary import MemoryCategory
from tests.engine.cases import config
from tests.offload.offloaded import policies

ROOT = Path(__file__).parents[2]
ITEM = Item(elements=5000, dtype=torch.float32, category=MemoryCategory.OPTIMIZER_STATES)
NAME = "states.bin"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[DiskPlace]:
    made = disk(tmp_path)
    yield made
    made.close()


def disk(folder: Path, *, buffer_count: int = 2) -> DiskPlace:
    return DiskPlace(
        folder,
        NAME,
        traffic=Traffic(PhaseClock()),
        buffer_count=buffer_count,
        longest_elements=None,
        read_ahead=True,
        write_behind=False,
    )


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)
        os.fsync(file.fileno())


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere: no such folder.*--offload-path"):
        disk(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        disk(tmp_path)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(StorageError, match=f"{NAME}: opening it for offload failed"):
        disk(tmp_path)


def test_a_full_disk(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    place = disk(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(StorageError, match=r"no room for .* Free space there"):
            for _ in range(10):
                place.shelf("more", {"x": ITEM})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        place.close()
    assert not (tmp_path / NAME).exists()


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / NAME
    theirs.write_bytes(b"a thesis")
    with pytest.raises(StorageError, match="left as it is"):
        disk(tmp_path)
    assert theirs.read_bytes() == b"a thesis"


def test_a_living_run_keeps_its_file(place: DiskPlace) -> None:
    with pytest.raises(StorageError, match="another run that is alive"):
        disk(place.file.path.parent)
    assert place.file.path.exists()


def test_what_a_killed_run_left_is_taken_over(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from engine.storage.disk_file import DiskFile
        DiskFile(Path({str(tmp_path)!r}), {NAME!r}).room(1 << 20)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / NAME).stat().st_size > 1 << 20
    file = DiskFile(tmp_path, NAME)
    assert file.path.stat().st_size == PAGE_BYTES
    file.close()
    assert not file.path.exists()


def test_a_record_of_another_run(tmp_path: Path, place: DiskPlace) -> None:
    shelf = place.shelf("mine", {"x": ITEM})
    shelf.give({"x": torch.ones(5000)})
    (tmp_path / "other").mkdir()
    other = disk(tmp_path / "other")
    theirs = other.shelf("theirs", {"x": ITEM})
    theirs.give({"x": torch.zeros(5000)})
    overwrite(place.file.path, 0, other.file.path.read_bytes())
    other.close()
    with pytest.raises(DamagedRecordError, match="written by another run"):
        shelf.take()


def test_an_older_write_of_the_same_record(place: DiskPlace) -> None:
    shelf = place.shelf("mine", {"x": ITEM})
    shelf.give({"x": torch.ones(5000)})
    before = place.file.path.read_bytes()
    shelf.give({"x": torch.zeros(5000)})
    overwrite(place.file.path, 0, before)
    with pytest.raises(DamagedRecordError, match="tells of record 1, write 1"):
        shelf.take()


def test_a_file_that_was_cut_off(place: DiskPlace) -> None:
    shelf = place.shelf("mine", {"x": ITEM})
    shelf.give({"x": torch.ones(5000)})
    os.truncate(place.file.path, 2 * PAGE_BYTES)
    with pytest.raises(DamagedRecordError, match="ends within it"):
        shelf.take()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_flipped_bit_and_no_swapped_page_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = disk(tmp_path_factory.mktemp("bits"))
    try:
        shelf = place.shelf("mine", {"x": ITEM})
        shelf.give({"x": torch.arange(5000, dtype=torch.float32)})
        content = place.file.path.read_bytes()
        payload = slice(2 * PAGE_BYTES, 2 * PAGE_BYTES + ITEM.size_bytes)
        if data.draw(st.booleans(), label="swap"):
            one, other = sorted(data.draw(st.sets(st.integers(0, 3), min_size=2, max_size=2)))
            pages = [content[payload][at * PAGE_BYTES : (at + 1) * PAGE_BYTES] for at in range(4)]
            pages[one], pages[other] = pages[other], pages[one]
            overwrite(place.file.path, payload.start, b"".join(pages))
        else:
            at = data.draw(st.integers(payload.start, payload.stop - 1))
            bit = data.draw(st.integers(0, 7))
            overwrite(place.file.path, at, bytes([content[at] ^ 1 << bit]))
        with pytest.raises(DamagedRecordError, match="checksum"):
            shelf.take()
    finally:
        place.close()


@settings(max_examples=30, deadline=None)
@given(
    orders=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=25),
    buffer_count=st.integers(1, 3),
)
def test_a_shelf_holds_what_was_given_last(
    tmp_path_factory: pytest.TempPathFactory,
    orders: list[tuple[int, bool]],
    buffer_count: int,
) -> None:
    place = disk(tmp_path_factory.mktemp("orders"), buffer_count=buffer_count)
    place.write_behind = True
    try:
        items = [
            Item(elements=10 + 3000 * at, dtype=torch.float32, category=ITEM.category)
            for at in range(5)
        ]
        shelves = [place.shelf(f"{at}", {"x": item}) for at, item in enumerate(items)]
        expected = [float(at) for at in range(5)]
        for at, shelf in enumerate(shelves):
            shelf.give({"x": torch.full((items[at].elements,), expected[at])})
        for step, (at, changes) in enumerate(orders):
            shelves[(at + 1) % 5].expect()
            values = shelves[at].take()["x"]
            assert (values == expected[at]).all()
            if changes:
                expected[at] = 100.0 + step
                values.fill_(expected[at])
                shelves[at].give({"x": values})
            else:
                shelves[at].leave()
    finally:
        place.close()


def test_a_share_of_the_states_is_refused(tmp_path: Path) -> None:
    chosen = config(3, **policies("optimizer to host", tmp_path, ratio=0.5))
    with pytest.raises(UsageError, match=r"ratio is 0\.5.*set it to 1"):
        find_places(chosen, rank=0, device=torch.device("cpu"), clock=PhaseClock())
