"""Shards on disk: read ahead and written behind by two threads, through a few buffers.

    take k      wait until it has been read; k+1 is being read meanwhile
    give k      hand its buffer to the writer, and go on with k+1
    buffer      free again once it is written

What exists in memory is bounded by the buffers, however large the model.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

from torch import Tensor

from engine.storage.buffers import PAGE_BYTES, Buffer, HostBuffers, whole_pages
from engine.storage.disk_file import DiskFile
from engine.storage.place import Item, Place, Shelf, sizes_of
from engine.storage.traffic import Traffic, Wait
from probe.schema.vocabulary import Direction, MemoryCategory, Tier

ALIGNMENT_BYTES = 64
PATIENCE_S = 0.05


class DiskPlace(Place):
    """A file, its two threads and its buffers."""

    tier = Tier.DISK
    always_at_hand = False

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        traffic: Traffic,
        buffer_count: int,
        longest_elements: int | None,
        read_ahead: bool,
        write_behind: bool,
    ) -> None:
        self.file = DiskFile(folder, name)
        self.buffers = HostBuffers(buffer_count)
        self.traffic = traffic
        self.write_behind = write_behind
        self.expected: list[DiskShelf] = []
        self._longest_elements = longest_elements
        self._read_ahead = read_ahead
        self._under_way = dict.fromkeys(Direction, 0)
        self._lock = threading.Lock()
        self._threads = {
            direction: ThreadPoolExecutor(1, thread_name_prefix=f"disk-{direction}")
            for direction in Direction
        }
        self._resting: dict[MemoryCategory, int] = {}
        self._shelves = 0
        self._closed = False

    def shelf(self, name: str, items: Mapping[str, Item]) -> "DiskShelf":
        self._require_short(name, items.values())
        self._shelves += 1
        self._count(items.values(), +1)
        return DiskShelf(self, self._shelves, dict(items))

    def held_bytes(self) -> Mapping[tuple[Tier, MemoryCategory], int]:
        resting = {(Tier.DISK, category): size for category, size in self._resting.items()}
        return {**resting, (Tier.HOST, MemoryCategory.COMM_BUFFERS): self.buffers.held_bytes}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for thread in self._threads.values():
            thread.shutdown(wait=True, cancel_futures=True)
        self.file.close()

    def buffer_for(self, size_bytes: int, *, early: bool) -> Buffer | None:
        """A buffer; for what comes early only if one is to spare."""
        if early:
            return self.buffers.take_spare(size_bytes) if self._read_ahead else None
        while True:
            busy = self._under_way[Direction.STORE] > 0
            buffer = self.buffers.take_soon(size_bytes, PATIENCE_S if busy else 0)
            if buffer is not None:
                return buffer
            if self.expected:
                self.expected[-1].leave()
            elif not busy:
                return self.buffers.take_beyond(size_bytes)

    def submit(
        self,
        direction: Direction,
        work: Callable[[], None],
        sizes: Mapping[MemoryCategory, int],
        *,
        after: Future[None] | None = None,
    ) -> Future[None]:
        """Let the thread of that direction do it, `after` something else is done; count it."""
        with self._lock:
            self._under_way[direction] += 1
            depth = self._under_way[direction]

        def counted() -> None:
            try:
                if after is not None:
                    after.result()
                began_ns = monotonic_ns()
                work()
                self.traffic.moved(
                    Tier.DISK,
                    direction,
                    sizes,
                    began_ns=began_ns,
                    ended_ns=monotonic_ns(),
                    queue_depth=depth,
                )
            finally:
                with self._lock:
                    self._under_way[direction] -= 1

        return self._threads[direction].submit(counted)

    def removed(self, shelf: "DiskShelf", offset: int, length: int) -> None:
        """A shelf is gone."""
        self._count(shelf.items.values(), -1)
        self.file.give_up(offset, length)

    def _count(self, items: Iterable[Item], sign: int) -> None:
        for category, size in sizes_of(items).items():
            self._resting[category] = self._resting.get(category, 0) + sign * size

    def _require_short(self, name: str, items: Iterable[Item]) -> None:
        longest = max((item.elements for item in items), default=0)
        if self._longest_elements is not None and longest > self._longest_elements:
            raise ValueError(
                f"{name} has {longest:,} elements on a rank, more than a buffer of"
                f" {self._longest_elements:,}; raise zero_optimization.offload_param.buffer_size"
            )


class DiskShelf(Shelf):
    """One record: tensors side by side, and the buffer that holds them while they are at hand."""

    def __init__(self, place: DiskPlace, number: int, items: dict[str, Item]) -> None:
        self.items = items
        self._place = place
        self._number = number
        self._starts: dict[str, int] = {}
        payload_bytes = 0
        for name, item in items.items():
            self._starts[name] = payload_bytes
            payload_bytes += -(-item.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._length = PAGE_BYTES + whole_pages(payload_bytes)
        self._offset = place.file.room(self._length)
        self._present: tuple[str, ...] = ()
        self._version = 0
        self._buffer: Buffer | None = None
        self._reading: Future[None] | None = None
        self._writing: Future[None] | None = None

    def expect(self) -> bool:
        if self._buffer is not None or not self._present:
            return True
        buffer = self._place.buffer_for(self._length, early=True)
        if buffer is None:
            return False
        self._begin_reading(buffer)
        self._place.expected.append(self)
        return True

    def take(self) -> dict[str, Tensor]:
        if not self._present:
            return {}
        if self in self._place.expected:
            self._place.expected.remove(self)
        with self._waiting(Direction.FETCH):
            if self._buffer is None:
                buffer = self._place.buffer_for(self._length, early=False)
                assert buffer is not None, "who is not early waits for one"
                self._begin_reading(buffer)
            if self._reading is not None:
                self._reading.result()
                self._reading = None
        assert self._buffer is not None, "just read"
        return {name: self._view(self._buffer, name) for name in self._present}

    def give(self, tensors: Mapping[str, Tensor]) -> None:
        present = tuple(name for name in self.items if name in tensors)
        assert len(present) == len(tensors), f"room for {set(self.items)}, given {set(tensors)}"
        buffer = self._buffer
        if buffer is None:
            with self._waiting(Direction.STORE):
                buffer = self._place.buffer_for(self._length, early=False)
            assert buffer is not None, "who is not early waits for one"
        for name in present:
            place = self._view(buffer, name)
            if place.data_ptr() != tensors[name].data_ptr():
                place.copy_(tensors[name])
        self._buffer = None
        self._present = present
        self._version += 1
        self._await_writing()
        self._begin_writing(buffer)
        if not self._place.write_behind:
            with self._waiting(Direction.STORE):
                self._await_writing()

    def leave(self) -> None:
        if self in self._place.expected:
            self._place.expected.remove(self)
        if self._buffer is None:
            return
        if self._reading is not None:
            self._reading.result()
            self._reading = None
        self._place.buffers.give(self._buffer)
        self._buffer = None

    def drop(self) -> None:
        self.leave()
        self._await_writing()
        self._present = ()
        self._place.removed(self, self._offset, self._length)

    def _begin_reading(self, buffer: Buffer) -> None:
        self._buffer = buffer
        payload_bytes, version, written = self._payload_bytes, self._version, self._writing
        self._writing = None

        def read() -> None:
            self._place.file.read(
                buffer,
                payload_bytes,
                offset=self._offset,
                number=self._number,
                version=version,
            )

        self._reading = self._place.submit(Direction.FETCH, read, self._sizes, after=written)

    def _begin_writing(self, buffer: Buffer) -> None:
        payload_bytes, version = self._payload_bytes, self._version

        def write() -> None:
            try:
                self._place.file.write(
                    buffer,
                    payload_bytes,
                    offset=self._offset,
                    number=self._number,
                    version=version,
                )
            finally:
                self._place.buffers.give(buffer)

        self._writing = self._place.submit(Direction.STORE, write, self._sizes)

    def _await_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _waiting(self, direction: Direction) -> Wait:
        return self._place.traffic.waiting(Tier.DISK, direction, self._sizes)

    def _view(self, buffer: Buffer, name: str) -> Tensor:
        item = self.items[name]
        start = PAGE_BYTES + self._starts[name]
        return buffer.tensor[start : start + item.size_bytes].view(item.dtype)

    @property
    def _payload_bytes(self) -> int:
        last = self._present[-1]
        return self._starts[last] + self.items[last].size_bytes

    @property
    def _sizes(self) -> dict[MemoryCategory, int]:
        return sizes_of(self.items[name] for name in self._present or self.items)
