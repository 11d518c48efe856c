"""How this process meets its peers: a group that exists, torchrun's environment, or alone.

World size 1 is a group like any other, so that nothing after this file asks how many there are.
"""

import atexit
import itertools
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

_MEETINGS = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where this process stands among its peers."""

    group: dist.ProcessGroup
    store: Store
    device: torch.device
    local_rank: int
    backend: str

    def leave(self) -> None:
        """Give back a group that was made for this meeting: its threads look for work for ever."""
        if self.group is not dist.group.WORLD and dist.is_initialized():
            dist.destroy_process_group(self.group)


def meet(*, port: int | None = None) -> Meeting:
    """Join the process group, starting it when nobody has."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if not dist.is_initialized():
        _start(local_rank, port)
    group = dist.group.WORLD
    assert group is not None, "the default group was just made sure of"
    on_cuda = torch.cuda.is_available() and "nccl" in dist.get_backend(group)
    device = torch.device("cuda", local_rank) if on_cuda else torch.device("cpu")
    if on_cuda:
        torch.cuda.set_device(device)
        return Meeting(
            group=group, store=_store(), device=device, local_rank=local_rank, backend="nccl"
        )
    # A group of our own: a user's collectives on the default group never meet the engine's
    # messages.
    private = dist.new_group(backend="gloo")
    return Meeting(
        group=private, store=_store(), device=device, local_rank=local_rank, backend="gloo"
    )


def _start(local_rank: int, port: int | None) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(port or 29500))
        _start_from_environment(backend)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    atexit.register(_end)


def _start_from_environment(backend: str) -> None:
    if not restarts():
        dist.init_process_group(backend, init_method="env://")
        return
    # The launcher's store outlives the ranks that failed, and still holds their addresses.
    store, rank, world = next(rendezvous("env://"))
    dist.init_process_group(
        backend, store=PrefixStore(f"attempt {restarts()}", store), rank=rank, world_size=world
    )


def restarts() -> int:
    """How often torch.distributed.run has started these ranks anew after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _store() -> Store:
    # One namespace a meeting: last words of an earlier engine are not those of a later one.
    return PrefixStore(f"engine.{next(_MEETINGS)}", dist.distributed_c10d._get_default_store())


def _end() -> None:
    # Without this, threads of the backend outlive the interpreter and it ends in an abort.
    if dist.is_initialized():
        dist.destroy_process_group()
