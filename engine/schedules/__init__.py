"""Learning-rate schedules: DeepSpeed's five, number for number, and any of torch's by name."""

from engine.schedules.choice import build_schedule
from engine.schedules.cycle import LRRangeTest, OneCycle
from engine.schedules.warmup import WarmupCosineLR, WarmupDecayLR, WarmupLR

__all__ = [
    "LRRangeTest",
    "OneCycle",
    "WarmupCosineLR",
    "WarmupDecayLR",
    "WarmupLR",
    "build_schedule",
]
