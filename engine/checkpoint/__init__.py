"""Checkpoints that any number of ranks, any stage and any precision can go on from."""

from engine.checkpoint.calls import CheckpointCalls
from engine.checkpoint.checkpoints import Checkpoints, Job
from engine.checkpoint.documents import Counters
from engine.checkpoint.parts import Parts

__all__ = ["CheckpointCalls", "Checkpoints", "Counters", "Job", "Parts"]
