"""From a configuration to the places where this rank's shards rest."""

import atexit
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.config.policies import Config, OffloadPolicy
from engine.storage.bandwidth import Speed, measure
from engine.storage.disk import DiskPlace
from engine.storage.link import Link
from engine.storage.place import MemoryPlace, Place
from engine.storage.traffic import Traffic
from engine.tracing import PhaseClock
from probe.errors import UsageError
from probe.schema.vocabulary import MemoryCategory, Tier

HOST = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where masters and states rest, where the slices of weights do, and what moves between."""

    states: Place
    params: Place
    link: Link | None
    """Where the update runs on the host; None where it runs on the device."""
    traffic: Traffic
    speeds: tuple[Speed, ...] = ()
    """What a disk that is used was measured to do."""

    @property
    def gradient_tier(self) -> Tier:
        """Where reduced gradients wait for the update: with it, but never on disk."""
        return Tier.DEVICE if self.states.tier is Tier.DEVICE else Tier.HOST

    def held_bytes(self) -> dict[tuple[Tier, MemoryCategory], int]:
        """Bytes that no tensor of the stage or the optimizer stands for."""
        total: dict[tuple[Tier, MemoryCategory], int] = {}
        for place in (self.states, self.params):
            for where, size in place.held_bytes().items():
                total[where] = total.get(where, 0) + size
        staging = Tier.HOST, MemoryCategory.COMM_BUFFERS
        if self.link is not None:
            total[staging] = total.get(staging, 0) + self.link.staging_bytes
        return total

    def close(self) -> None:
        """Files are removed."""
        atexit.unregister(self.close)
        self.states.close()
        self.params.close()


def find_places(config: Config, *, rank: int, device: torch.device, clock: PhaseClock) -> Places:
    """The places that the configuration asks for."""
    if config.offload_optimizer.ratio < 1:
        raise UsageError(
            f"zero_optimization.offload_optimizer.ratio is {config.offload_optimizer.ratio:g}, but"
            " all optimizer states of a rank rest in one place here; set it to 1, or the device to"
            " none."
        )
    traffic = Traffic(clock)
    states = _place(config.offload_optimizer, "states", rank, device, traffic, pipelined=None)
    try:
        params = _place(config.offload_params, "params", rank, device, traffic, pipelined=True)
    except BaseException:
        states.close()
        raise
    on_disk = next((each for each in (states, params) if isinstance(each, DiskPlace)), None)
    places = Places(
        states=states,
        params=params,
        link=None
        if states.tier is Tier.DEVICE
        else Link(device, traffic, pinned=config.offload_optimizer.pin_memory),
        traffic=traffic,
        speeds=() if on_disk is None else measure(on_disk.file),
    )
    # A bound method of it: compared by what it is bound to, so `unregister` finds it.
    atexit.register(places.close)
    return places


def _place(
    policy: OffloadPolicy,
    what: str,
    rank: int,
    device: torch.device,
    traffic: Traffic,
    *,
    pipelined: bool | None,
) -> Place:
    if policy.tier is Tier.DEVICE:
        return MemoryPlace(Tier.DEVICE, device)
    if policy.tier is Tier.HOST:
        return MemoryPlace(Tier.HOST, HOST, pinned=policy.pin_memory)
    assert policy.disk_path is not None, "the configuration was checked"
    return DiskPlace(
        Path(policy.disk_path),
        f"zeroprobe_{what}_rank_{rank:05d}.bin",
        traffic=traffic,
        buffer_count=policy.buffer_count,
        longest_elements=policy.buffer_elements if what == "params" else None,
        read_ahead=policy.pipeline_read if pipelined is None else pipelined,
        write_behind=policy.pipeline_write if pipelined is None else pipelined,
    )
