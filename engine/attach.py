"""Joins an engine to the recording of its process: who it is goes into the header, facts into rows."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from engine.config.flags import FlagOverrides
from engine.config.load import Source
from engine.engine import Engine
from engine.observer import Recorder
from engine.recording import Session, current
from probe import __version__
from probe.schema.documents import ModelFacts, RunConfig
from probe.schema.vocabulary import CollectiveOp

import msgspec

GLOO_OPS = {CollectiveOp.REDUCE_SCATTER: CollectiveOp.ALL_TO_ALL}
"""What is really run where the backend has no true form of an operation."""


def attach(engine: Engine) -> None:
    """Record this engine, if this process records."""
    session = current()
    if session is None or session.writer is None:
        return
    config = engine.config
    session.header = msgspec.structs.replace(
        session.header,
        device=str(engine.device),
        engine=f"zeroprobe {__version__}",
        config=RunConfig(
            precision=config.precision.precision,
            stage=config.zero.stage,
            offload_optimizer=config.offload_optimizer.tier,
            offload_params=config.offload_params.tier,
            train_batch_samples=config.batch.train,
            micro_batch_samples=config.batch.micro,
            accumulation_steps=config.batch.accumulation_steps,
            settings=_flat(asdict(config)),
        ),
    )
