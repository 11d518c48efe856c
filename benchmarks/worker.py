"""One rank of one contestant: a process that lives through the whole run and waits for its turns.

Between turns it is blocked on a pipe, so it costs the contestant whose turn it is nothing.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns, process_time_ns

import torch
from torch import distributed as dist

from benchmarks.memory import forget_peak, peak_resident_bytes, resident_bytes
from benchmarks.model import Batch, batches, build_model
from benchmarks.peers import load_build
from benchmarks.peers.protocol import Contestant, PartedContestant, ScaledContestant
from benchmarks.setting import Setting

DISTINCT_BATCHES = 64
"""Drawn before the first step and then repeated, so that drawing takes no time from anyone."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where one worker sits: which contestant, which rank, and where its files lie."""

    contestant: str
    setting: Setting
    rank: int
    folder: Path

    @property
    def log(self) -> Path:
        """What this worker's libraries print."""
        return self.folder / f"{self.contestant}_{self.rank}.log"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one rank saw in one turn; times are CLOCK_MONOTONIC, the same clock on all ranks."""

    end_ns: list[int] = field(default_factory=list)
    """When each step ended on this rank."""
    cpu_ns: list[int] = field(default_factory=list)
    """Processor time that this rank's threads had used by then."""
    losses: list[float] = field(default_factory=list)
    parts_ns: list[dict[str, int]] = field(default_factory=list)
    """For each step, how long each part took; empty for contestants without parts."""
    scales: list[float] = field(default_factory=list)
    """After each step, the loss scale of the next; empty for contestants that do not show it."""
    skipped_steps: list[int] = field(default_factory=list)
    """After each step, how many were skipped so far."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What one rank held."""

    base_bytes: int
    """Resident before the model was built: interpreter, libraries, process group."""
    peak_bytes: int
    """Largest resident set of the measured turns."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A worker's last words."""

    text: str


class Order:
    """What the parent may ask."""

    SETTLE = "settle"
    FINISH = "finish"


def serve(connection: Connection, seat: Seat) -> None:
    """Build the contestant, then answer orders until told to finish."""
    _send_output_to(seat.log)
    tempfile.tempdir = str(seat.folder)
    try:
        _join(seat)
        base_bytes = resident_bytes()
        contestant = load_build(seat.contestant)(
            build_model(seat.setting.model_shape, seat.setting.seed), seat.setting
        )
        supply = _supply(seat)
        connection.send("ready")
        while (order := connection.recv()) != Order.FINISH:
            if order == Order.SETTLE:
                forget_peak()
                connection.send("settled")
            else:
                connection.send(_take_turn(contestant, supply, steps=order))
        connection.send(Memory(base_bytes=base_bytes, peak_bytes=peak_resident_bytes()))
        dist.destroy_process_group()
    except BaseException:
        connection.send(Failure(text=traceback.format_exc()))
        raise


def _take_turn(contestant: Contestant, supply: Iterator[Batch], steps: int) -> Turn:
    turn = Turn()
    dist.barrier()
    for batch in islice(supply, steps):
        loss = contestant.step(batch)
        turn.end_ns.append(perf_counter_ns())
        turn.cpu_ns.append(process_time_ns())
        turn.losses.append(float(loss))
        if isinstance(contestant, PartedContestant):
            turn.parts_ns.append(dict(contestant.parts_ns))
        if isinstance(contestant, ScaledContestant):
            turn.scales.append(contestant.scale)
            turn.skipped_steps.append(contestant.skipped_steps)
    return turn


def _supply(seat: Seat) -> Iterator[Batch]:
    setting = seat.setting
    endless = batches(setting.model_shape, setting.micro_batch, setting.seed, seat.rank)
    return cycle(list(islice(endless, DISTINCT_BATCHES)))


def _join(seat: Seat) -> None:
    os.environ |= {
        "RANK": str(seat.rank),
        "LOCAL_RANK": str(seat.rank),
        "WORLD_SIZE": str(seat.setting.ranks),
        "LOCAL_WORLD_SIZE": str(seat.setting.ranks),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{seat.folder / seat.contestant}.store",
        rank=seat.rank,
        world_size=seat.setting.ranks,
    )


def _send_output_to(path: Path) -> None:
    """Send both streams to a file at the descriptor level: compiled libraries print there too."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
