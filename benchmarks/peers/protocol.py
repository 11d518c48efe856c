"""What a contestant is: something built from a model and a setting that can take a step."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from benchmarks.model import GPT, Batch
from benchmarks.setting import Setting


class Contestant(Protocol):
    """One training engine, built and ready."""

    def step(self, batch: Batch) -> Tensor:
        """Forward, backward and update; return this rank's loss, detached."""
        ...


@runtime_checkable
class PartedContestant(Contestant, Protocol):
    """A contestant that also times its parts: the bound."""

    @property
    def parts_ns(self) -> Mapping[str, int]:
        """How long each part of the last step took on this rank."""
        ...


@runtime_checkable
class ScaledContestant(Contestant, Protocol):
    """A contestant whose loss scale can be read: DeepSpeed and the engine; 1 outside fp16."""

    @property
    def scale(self) -> float:
        """The loss scale that the next step will use."""
        ...

    @property
    def skipped_steps(self) -> int:
        """How many steps so far left the parameters as they were."""
        ...


class Build(Protocol):
    """Makes a contestant out of an fp32 model; the process group is already up."""

    def __call__(self, model: GPT, setting: Setting) -> Contestant: ...
