"""How fast a disk is, measured once on the file that will be used, in the way it will be used."""

from dataclasses import dataclass
from time import monotonic_ns

import torch

from engine.storage.buffers import PAGE_BYTES, HostBuffers
from engine.storage.disk_file import DiskFile
from probe.schema.vocabulary import Direction

MEASURED_BYTES = 8 << 20
ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class Speed:
    """So many bytes took so long."""

    direction: Direction
    moved_bytes: int
    took_ns: int


def measure(file: DiskFile) -> tuple[Speed, Speed]:
    """Write a record a few times, and read it as often."""
    payload_bytes = MEASURED_BYTES - PAGE_BYTES
    offsets = [file.room(MEASURED_BYTES) for _ in range(ROUNDS)]
    buffer = HostBuffers(1).take_beyond(MEASURED_BYTES)
    # A generator of its own: measuring must not move the training's random numbers.
    buffer.tensor.random_(generator=torch.Generator().manual_seed(0))
    # The first write to new blocks also pays for the file system's books.
    file.write(buffer, payload_bytes, offset=offsets[0], number=0, version=0)
    speeds = []
    for direction, act in ((Direction.STORE, file.write), (Direction.FETCH, file.read)):
        began_ns = monotonic_ns()
        for offset in offsets:
            act(buffer, payload_bytes, offset=offset, number=0, version=0)
        speeds.append(
            Speed(
                direction=direction,
                moved_bytes=MEASURED_BYTES * ROUNDS,
                took_ns=monotonic_ns() - began_ns,
            )
        )
    for offset in offsets:
        file.give_up(offset, MEASURED_BYTES)
    return speeds[0], speeds[1]
