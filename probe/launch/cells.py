"""The cells of a sweep: which combinations are recorded, in which order, and which cannot be.

A run carries tags that say which cell of which sweep it is. So a sweep needs no file of its own:
what the runs below a folder say is what was done, and the same command goes on from there.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from probe.launch.surroundings import script_hash
from probe.schema.documents import Manifest
from probe.schema.handover import RunFlags
from probe.schema.vocabulary import Precision, Tier

_SWEEP, _CELL, _START = "sweep:", "cell:", "start:"
_ID_LENGTH = 10


class Offload(StrEnum):
    """What leaves the device between uses, and where to, in one word."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    PARAMS = "params"
    DISK = "disk"


_TIERS = {
    Offload.NONE: (Tier.DEVICE, Tier.DEVICE),
    Offload.OPTIMIZER: (Tier.HOST, Tier.DEVICE),
    Offload.PARAMS: (Tier.HOST, Tier.HOST),
    Offload.DISK: (Tier.DISK, Tier.DEVICE),
}
_LOWEST_STAGE = {Offload.NONE: 0, Offload.OPTIMIZER: 1, Offload.PARAMS: 3, Offload.DISK: 1}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of settings."""

    precision: Precision
    stage: int
    offload: Offload

    @property
    def name(self) -> str:
        """As it stands in tags and in progress."""
        words = [self.precision.value, f"stage-{self.stage}"]
        return "-".join(words if self.offload is Offload.NONE else [*words, self.offload.value])

    @property
    def flags(self) -> RunFlags:
        """What `probe run` would be told."""
        optimizer, params = _TIERS[self.offload]
        return RunFlags(
            precision=self.precision,
            stage=self.stage,
            offload_optimizer=optimizer,
            offload_params=params,
        )

    @property
    def why_not(self) -> str | None:
        """Why it cannot be recorded; None if it can."""
        lowest = _LOWEST_STAGE[self.offload]
        if self.stage >= lowest:
            return None
        return f"offload {self.offload} needs stage {lowest} or above"


@dataclass(frozen=True, kw_only=True)
class Start:
    """One run of a cell; several of a cell are told apart by their number, from 1."""

    cell: Cell
    number: int

    def tags(self, sweep: str) -> tuple[str, ...]:
        """What the run carries."""
        return f"{_SWEEP}{sweep}", f"{_CELL}{self.cell.name}", f"{_START}{self.number}"


def all_cells(
    precisions: Iterable[Precision], stages: Iterable[int], offloads: Iterable[Offload]
) -> list[Cell]:
    """Every combination, each once, the last axis moving fastest."""
    stages, offloads = list(stages), list(offloads)
    every = [
        Cell(precision=precision, stage=stage, offload=offload)
        for precision in precisions
        for stage in stages
        for offload in offloads
    ]
    return list(dict.fromkeys(every))


def starts_of(cells: Sequence[Cell], repeats: int) -> Iterator[Start]:
    """A B A B, not A A B B: what drifts with time then befalls all cells alike."""
    for number in range(1, repeats + 1):
        for cell in cells:
            yield Start(cell=cell, number=number)


def sweep_id(script: Path, arguments: Sequence[str], processes: int, config: Path | None) -> str:
    """What must be equal for runs to belong to one sweep, in a few characters."""
    facts = [script_hash(script), str(processes), *arguments]
    if config is not None:
        facts.append(script_hash(config))
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:_ID_LENGTH]


def start_of(manifest: Manifest, sweep: str, cells: Sequence[Cell]) -> Start | None:
    """Which start of this sweep a run is; None if it is of none."""
    told = {
        key: tag.removeprefix(key)
        for tag in manifest.tags
        for key in (_SWEEP, _CELL, _START)
        if tag.startswith(key)
    }
    cell = next((cell for cell in cells if cell.name == told.get(_CELL)), None)
    number = told.get(_START, "")
    if told.get(_SWEEP) != sweep or cell is None or not number.isdecimal():
        return None
    return Start(cell=cell, number=int(number))
