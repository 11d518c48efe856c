"""The four ZeRO stages: who holds what, and what travels when."""

from engine.stages.base import Frozen, Setting, Stage
from engine.stages.parameters import SlicedParameters
from engine.stages.replica import Replica
from engine.stages.states import SlicedStates

__all__ = ["Frozen", "Setting", "Stage", "build_stage"]


def build_stage(setting: Setting) -> Stage:
    """The stage that the configuration asks for."""
    match setting.config.zero.stage:
        case 0:
            return Replica(setting)
        case 1 | 2 as stage:
            return SlicedStates(setting, slice_gradients=stage == 2)
        case 3:
            return SlicedParameters(setting)
        case stage:
            raise ValueError(f"zero_optimization.stage is {stage}; it must be 0, 1, 2 or 3")
