"""Ranks that read each other's memory: the same bits as by sockets, and clear ends."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import torch

from engine.collectives.neighbours import Neighbours
from engine.collectives.peer_memory import PeerMemory
from engine.collectives.summation import Here, mean_into
from engine.config.policies import LossScalePolicy, SameHost
from engine.failures import PeerLostError
from probe.errors import UsageError
from probe.schema.vocabulary import Precision
from tests.engine.cases import config, everything, start, train
from tests.engine.models import batch_of, loss_of
from tests.engine.team import Team

SETTINGS = [
    (stage, precision)
    for stage in (0, 1, 2, 3)
    for precision in (Precision.FP32, Precision.FP16, Precision.BF16)
]


def one_way(stage: int, precision: Precision, same_host: SameHost) -> dict[str, Any]:
    scale = LossScalePolicy(initial_scale_power=4, hysteresis=1)
    trainer = start(config(stage, precision=precision, scale=scale, same_host=same_host))
    assert trainer.collectives.moved_by == same_host
    trainer.collectives.take_tallies()
    losses = train(trainer, 2)
    loss = loss_of(trainer, batch_of(2, trainer.global_rank))
    if trainer.global_rank == trainer.world_size - 1:
        loss = loss * float("inf")
    trainer.backward(loss)
    trainer.step()
    losses += train(trainer, 1, first=3)
    # Two backwards before a step: the second adds to the average of the first.
    for number in (4, 5):
        trainer.backward(loss_of(trainer, batch_of(number, trainer.global_rank)))
    trainer.step()
    tallies = trainer.collectives.take_tallies()
    outcome = {
        "losses": losses,
        "norm": trainer.get_global_grad_norm(),
        "offenders": trainer.last_overflow.offenders,
        "tensors": everything(trainer),
        "counted": {
            key: (tally.calls, tally.logical_bytes, tally.wire_bytes)
            for key, tally in tallies.items()
        },
    }
    trainer.close()
    return outcome


def both_ways(settings: list[tuple[int, Precision]]) -> None:
    for stage, precision in settings:
        by_memory, by_sockets = (
            one_way(stage, precision, each) for each in (SameHost.MEMORY, SameHost.SOCKETS)
        )
        tensors = zip(by_memory.pop("tensors"), by_sockets.pop("tensors"), strict=True)
        assert all(torch.equal(one, other) for one, other in tensors), (stage, precision)
        assert by_memory == by_sockets, (stage, precision)
        assert by_memory["offenders"]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_both_ways_give_the_same_bits(teams: dict[int, Team], world: int) -> None:
    some = SETTINGS if world == 2 else [(0, Precision.BF16), (2, Precision.FP16), SETTINGS[-3]]
    teams[world].run(both_ways, settings=some)


def in_opposite_orders() -> list[float]:
    """Launch two in one order; rank 0 waits in the other."""
    trainer = start(config(1))
    collectives, rank = trainer.collectives, trainer.global_rank
    own = [torch.full((5,), float(10 * which + rank)) for which in (1, 2)]
    full = [torch.zeros(10) for _ in own]
    pending = [
        collectives.all_gather(into, mine, block=f"block {which}")
        for which, (into, mine) in enumerate(zip(full, own, strict=True))
    ]
    for each in pending if rank else reversed(pending):
        each.wait()
    trainer.close()
    return [float(value) for into in full for value in into[::5]]


def test_ranks_may_wait_in_different_orders(teams: dict[int, Team]) -> None:
    assert teams[2].run(in_opposite_orders) == [[10.0, 11.0, 20.0, 21.0]] * 2


def unwilling(how: str) -> str:
    rank = int(torch.distributed.get_rank())
    readable = PeerMemory.read_bytes

    def forbidden(*_: Any) -> None:
        raise PermissionError("not yours")

    try:
        if rank == 1 and how == "variable":
            os.environ["PROBE_SAME_HOST"] = "sockets"
        if rank == 1 and how == "forbidden":
            PeerMemory.read_bytes = forbidden  # type: ignore[assignment]
        trainer = start(config(0))
    finally:
        os.environ.pop("PROBE_SAME_HOST", None)
        PeerMemory.read_bytes = readable  # type: ignore[method-assign]
    train(trainer, 1)
    moved_by = trainer.collectives.moved_by
    trainer.close()
    return str(moved_by)


@pytest.mark.parametrize("how", ["variable", "forbidden"])
def test_one_rank_that_cannot_leaves_all_with_sockets(teams: dict[int, Team], how: str) -> None:
    assert teams[3].run(unwilling, how=how) == ["sockets"] * 3


def test_another_word_for_it_is_refused(
    teams: dict[int, Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_SAME_HOST", "pigeons")
    with pytest.raises(UsageError, match=r"PROBE_SAME_HOST is 'pigeons'; it may be memory or"):
        start(config(0))


def killed_in_the_middle(stage: int) -> tuple[float, str]:
    trainer = start(config(stage))
    train(trainer, 2)
    announce, said = Neighbours.send, 0

    def send(self: Neighbours, *note: Any) -> None:
        nonlocal said
        announce(self, *note)
        said += 1
        if said == 3:  # The peer has just been told where to read.
            os.kill(os.getpid(), signal.SIGKILL)

    if trainer.global_rank == 1:
        Neighbours.send = send  # type: ignore[method-assign]
    began = time.monotonic()
    try:
        train(trainer, 3, first=2)
    except PeerLostError as error:
        return time.monotonic() - began, str(error)
    return 0.0, "fine"


@pytest.mark.parametrize("stage", [0, 3])
def test_a_rank_killed_in_the_middle_of_a_collective(stage: int) -> None:
    team = Team(2)
    try:
        (healthy, outcome), (survived, _) = team.outcomes(killed_in_the_middle, stage=stage)
    finally:
        team.stop()
    assert healthy and not survived, outcome
    seconds, text = outcome
    assert "rank 1 is gone without a word" in text
    assert "rank 0 waited in" in text and "in step 2" in text
    assert seconds < 30


def test_memory_that_is_not_there_is_an_error() -> None:
    source, into = torch.arange(1000.0), torch.zeros(1000)
    memory = PeerMemory(os.getpid())
    memory.read_into(into, source.data_ptr())
    assert torch.equal(source, into)
    with pytest.raises(OSError, match="Bad address"):
        memory.read_bytes(into.data_ptr(), 4096, 16)
    page = os.sysconf("SC_PAGESIZE")
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    two_pages = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
    libc.munmap(two_pages + page, page)
    with pytest.raises(OSError, match="Bad address"):  # The first half is read, the rest is gone.
        memory.read_bytes(into.data_ptr(), two_pages + page - 16, 32)
    libc.munmap(two_pages, page)
    with pytest.raises(ProcessLookupError):
        PeerMemory(2**22 - 1).read_bytes(into.data_ptr(), source.data_ptr(), 16)


def test_a_sum_that_fp16_cannot_hold_is_noticed() -> None:
    out = torch.full((4,), 40_000.0, dtype=torch.float16)
    more = Here(values=torch.full((4,), 40_000.0, dtype=torch.float16))
    assert mean_into(out, [more], factor=1.0, add=True) == float("inf")
    assert bool(out.isinf().all())


def lines_after_closing() -> int:
    trainer = start(config(0))
    neighbours = trainer.collectives._transport._neighbours
    trainer.close()
    return sum(line.fileno() != -1 for line in neighbours._lines.values())


def test_closing_gives_the_lines_back(teams: dict[int, Team]) -> None:
    assert teams[3].run(lines_after_closing) == [0] * 3


def overwritten_at_once() -> list[float]:
    """Rank 0 uses its memory again as soon as it may, rank 1 is slow to read it."""
    trainer = start(config(1))
    collectives, rank = trainer.collectives, trainer.global_rank
    board = torch.distributed.distributed_c10d._get_default_store()
    own, full = torch.full((5,), 1.0 + rank), torch.zeros(10)
    if rank == 0:
        board.wait(["launched"])
        collectives.all_gather(full, own, block="block").wait()
        own.fill_(9.0)
        board.set("overwritten", "")
    else:
        pending = collectives.all_gather(full, own, block="block")
        board.set("launched", "")
        with suppress(RuntimeError):  # Rank 0 should still stand in its wait.
            board.wait(["overwritten"], timedelta(seconds=1))
        pending.wait()
    trainer.close()
    return [float(value) for value in full[::5]]


def test_memory_is_its_owners_again_only_when_all_have_read(teams: dict[int, Team]) -> None:
    assert teams[2].run(overwritten_at_once) == [[1.0, 2.0]] * 2
