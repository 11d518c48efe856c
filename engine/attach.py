"""Joins an engine to the recording of its process: who it is to the header, its facts to rows."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch

from engine.engine import Engine
from engine.loaders import time_loaders
from engine.numerics import Numerics
from engine.observer import Recorder
from engine.partition import Member
from engine.precision import compute_dtype
from engine.recording import Session, current
from engine.storage import Places
from engine.units import plan_units
from engine.window import Profiler
from probe import __version__
from probe.schema.documents import Header, ModelFacts, RunConfig
from probe.schema.layout import OFFLOAD_DIR
from probe.schema.rows import EventRow
from probe.schema.vocabulary import CollectiveOp, EventKind, Tier

_REPLACED_ON_GLOO = {CollectiveOp.REDUCE_SCATTER: CollectiveOp.ALL_TO_ALL}
"""What is really run where the backend has no true form of an operation."""


def attach(engine: Engine, members: list[Member]) -> None:
    """Record this engine, if this process records."""
    session = current()
    if session is None or session.writer is None:
        return
    session.header = _described(session.header, engine, members)
    session.writer.describe(session.header)
    on_gloo = engine.device.type == "cpu"
    numerics = _numerics(session.handover.numerics_every, engine, members)
    if numerics is not None:
        engine.watch_updates(numerics)
    recorder = Recorder(
        session,
        session.writer,
        engine,
        backend_op=lambda op: _REPLACED_ON_GLOO.get(op, op) if on_gloo else op,
        profiler=_profiler(session, engine),
        numerics=numerics,
        micro_batch_samples=engine.config.batch.micro,
    )
    engine.observer = recorder
    engine.note_micro_batches()
    session.take_over(recorder.stand, engine.clock)
    if rows := offload_events(engine.places):
        session.writer.write_all(rows)
    time_loaders(engine.clock)


def offload_events(places: Places) -> list[EventRow]:
    """Where state rests, and what a disk was measured to do before it was used."""
    rows = []
    if places.link is not None and places.link.shared:
        rows.append(
            EventRow(
                time_ns=monotonic_ns(),
                kind=EventKind.OFFLOAD,
                name=Tier.HOST,
                message="Device and host are the same memory here: what passes between them is"
                " handed over in place, and host memory is no relief to the device.",
            )
        )
    rows += [
        EventRow(
            time_ns=monotonic_ns(),
            kind=EventKind.OFFLOAD,
            name=f"{Tier.DISK} {speed.direction}",
            message="Measured once on the file that is used, before the first step.",
            duration_ns=speed.took_ns,
            size_bytes=speed.moved_bytes,
        )
        for speed in places.speeds
    ]
    return rows


def _profiler(session: Session, engine: Engine) -> Profiler | None:
    window, writer = session.handover.profile, session.writer
    if window is None or writer is None:
        return None
    return Profiler(window, rank=session.header.rank, folder=writer.folder, module=engine.module)


def _numerics(every_steps: int, engine: Engine, members: list[Member]) -> Numerics | None:
    if every_steps <= 0:
        return None
    name_of = {member.parameter: member.name for member in members}
    # Where nothing is sliced every rank would look at the same.
    sliced = engine.config.zero.stage > 0
    return Numerics(
        every_steps=every_steps,
        judged_by=compute_dtype(engine.config.precision.precision),
        block_of={
            name_of[parameter]: plan.name
            for plan in plan_units(engine.module)
            for parameter in plan.parameters
        },
        share=slice(None) if sliced else slice(engine.global_rank, None, engine.world_size),
    )


def _described(header: Header, engine: Engine, members: list[Member]) -> Header:
    config, module = engine.config, engine.module
    return Header(
        rank=header.rank,
        local_rank=header.local_rank,
        node=header.node,
        host=header.host,
        pid=header.pid,
        clock=header.clock,
        device=_device_name(engine.device),
        engine=f"zeroprobe {__version__}",
        config=RunConfig(
            precision=config.precision.precision,
            stage=config.zero.stage,
            offload_optimizer=config.offload_optimizer.tier,
            offload_params=config.offload_params.tier,
            train_batch_samples=config.batch.train,
            micro_batch_samples=config.batch.micro,
            accumulation_steps=config.batch.accumulation_steps,
            settings={
                **_told(flat_settings(asdict(config))),
                "moved_by": engine.collectives.moved_by,
            },
        ),
        model=ModelFacts(
            name=type(module).__name__,
            param_elements=sum(member.elements for member in members),
            trainable_elements=sum(m.elements for m in members if m.group is not None),
            buffer_bytes=sum(
                item.numel() * item.element_size() for item in engine.module.buffers()
            ),
        ),
        versions={"torch": str(torch.__version__), "python": platform.python_version()},
        seeds={"torch": torch.initial_seed() & (2**63 - 1)},
        parameters=[member.name for member in members],
    )


def _told(settings: dict[str, Any]) -> dict[str, Any]:
    """Without the folder in the run itself, where states rest if nobody names another."""
    return {
        name: value
        for name, value in settings.items()
        if not (name.endswith(".disk_path") and Path(str(value)).name == OFFLOAD_DIR)
    }


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted names, with plain values."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{path}.")
        elif isinstance(value, Enum):
            flat[path] = value.value
        else:
            flat[path] = value if isinstance(value, str | int | float | None) else repr(value)
    return flat


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
