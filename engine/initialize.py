"""From a model and a configuration to an engine, with DeepSpeed's signature and result."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.nn import Module, Parameter
from torch.optim import Optimizer
from torch.utils.data import Dataset

from engine.attach import attach
from engine.batches import TimedLoader
from engine.checkpoint import Job
from engine.collectives import Collectives, meet
from engine.config.facts import ModelFacts, ScriptFacts
from engine.config.flags import FlagOverrides
from engine.config.load import Source, read_config
from engine.config.policies import Config, SameHost
from engine.config.same_host import same_host
from engine.device_time import clock_of
from engine.engine import Engine
from engine.facts import Silence
from engine.host_memory import give_freed_memory_back, keep_freed_memory
from engine.kept import KeptActivations
from engine.loss_scale import LossScaler
from engine.optimizers import build_optimizer
from engine.partition import Member
from engine.precision import cast_buffers
from engine.recomputation import Recomputation
from engine.recording import current
from engine.schedules import build_schedule
from engine.sharded_init import collectives_of, leave_meta_device, whole_shape
from engine.stages import Setting, build_stage
from engine.storage.places import find_places
from engine.tracing import PhaseClock
from engine.update import Update
from probe.errors import UsageError
from probe.schema.handover import Handover
from probe.schema.layout import CHECKPOINTS_DIR, OFFLOAD_DIR
from probe.schema.vocabulary import Tier

Groups = Iterable[Parameter] | Iterable[dict[str, Any]]


def initialize(
    args: Any = None,
    model: Module | None = None,
    optimizer: Optimizer | Callable[[Groups], Optimizer] | None = None,
    model_parameters: Groups | None = None,
    training_data: Dataset[Any] | None = None,
    lr_scheduler: Any | None = None,
    distributed_port: int = 29500,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    config: Source | None = None,
    mesh_param: Any = None,
    config_params: Source | None = None,
) -> tuple[Engine, Optimizer | None, TimedLoader | None, Any]:
    """Make a model train over all ranks.

    Returns (engine, optimizer, dataloader, lr_scheduler) as DeepSpeed does. A process group is
    joined if there is one, started from torchrun's environment otherwise, and is of one rank
    without either.
    """
    del dist_init_required
    if mpu is not None or mesh_param is not None:
        raise UsageError(
            "mpu and mesh_param ask for model parallelism; this engine shards data only"
        )
    if model is None:
        raise UsageError("initialize needs a model: engine.initialize(model=..., config=...)")
    meeting = meet(port=distributed_port)
    session = current()
    records = session is not None and session.writer is not None
    clock = clock_of(meeting.device) if records else PhaseClock()
    collectives = collectives_of(model)
    if collectives is None:
        collectives = Collectives(meeting, clock=clock, observer=Silence())
    collectives.clock = clock
    chosen = _choose(
        args,
        config,
        config_params,
        world_size=collectives.world,
        rank=collectives.rank,
        model_facts=_facts(model),
        script_facts=ScriptFacts(
            own_optimizer=optimizer is not None, own_schedule=lr_scheduler is not None
        ),
    )
    if Tier.DISK in (chosen.offload_optimizer.tier, chosen.offload_params.tier):
        give_freed_memory_back()
    elif meeting.device.type == "cpu":
        keep_freed_memory()
    collectives.read_each_other(willing=same_host(chosen) is SameHost.MEMORY)
    replaced = leave_meta_device(model, meeting.device)
    built = _optimizer(chosen, optimizer, model_parameters, model)
    members = _members(model, built, replaced)
    cast_buffers(model, chosen.precision.precision, meeting.device)
    for name, buffer in model.named_buffers():
        collectives.broadcast(buffer, block=f"buffer {name}")
    kept = KeptActivations(model)
    recomputation = Recomputation(
        model, chosen.activations, clock=clock, kept=kept, device=meeting.device
    )
    if chosen.activations.offload_to_host and recomputation.blocks:
        _say_where_activations_rest(meeting.device, collectives.rank)
    places = find_places(chosen, rank=collectives.rank, device=meeting.device, clock=clock)
    stage = build_stage(
        Setting(
            module=model,
            members=members,
            config=chosen,
            collectives=collectives,
            clock=clock,
            places=places,
            device=meeting.device,
            kept=kept,
        )
    )
    update = schedule = None
    if built is not None:
        update = Update(
            optimizer=built,
            stage=stage,
            members=members,
            collectives=collectives,
            places=places,
            clip_norm=chosen.clip_norm,
            sub_group_elements=chosen.zero.sub_group_elements,
        )
        schedule = _schedule(chosen, lr_scheduler, built)
    engine = Engine(
        module=model,
        config=chosen,
        members=members,
        stage=stage,
        kept=kept,
        recomputation=recomputation,
        update=update,
        scaler=LossScaler.of(chosen.precision),
        schedule=schedule,
        collectives=collectives,
        clock=clock,
        places=places,
        meeting=meeting,
    )
    loader = None
    if training_data is not None:
        loader = TimedLoader(
            training_data,
            batch_samples=engine.train_micro_batch_size_per_gpu(),
            rank=engine.global_rank,
            world=engine.world_size,
            clock=clock,
            collate=collate_fn,
        )
        engine.remember(training_data=loader)
    attach(engine, members)
    _join_job(engine)
    engine.checkpoints.resume()
    clock.turn_over()
    places.traffic.take()
    return engine, built, loader, schedule


def _join_job(engine: Engine) -> None:
    """Checkpoints lie with the run, and the recording does not end before the last of them."""
    session = current()
    if session is None:
        return
    handover = session.handover
    lies_in = (
        {} if handover.run_dir is None else {"folder": Path(handover.run_dir) / CHECKPOINTS_DIR}
    )
    engine.checkpoints.job = Job(name=handover.job, **lies_in)
    session.before_end.append(engine.checkpoints.finish)


def _choose(
    args: Any,
    config: Source | None,
    config_params: Source | None,
    *,
    world_size: int,
    rank: int,
    model_facts: ModelFacts,
    script_facts: ScriptFacts,
) -> Config:
    """The script's configuration, with what the command line says in its place or on top."""
    session = current()
    handover = session.handover if session is not None else Handover()
    given = handover.flags.given()
    if handover.run_dir is not None and Tier.DISK in given.values():
        spare = Path(handover.run_dir) / OFFLOAD_DIR
        spare.mkdir(exist_ok=True)
        given["spare_folder"] = os.path.relpath(spare)
    if handover.config_path is not None:
        source: Source = handover.config_path
    elif given and all(each is None for each in (config, config_params, args)):
        source = {}
    else:
        source = _source(args, config, config_params)
    loaded = read_config(
        source,
        world_size=world_size,
        model_facts=model_facts,
        script_facts=script_facts,
        flags=FlagOverrides.from_mapping(given) if given else None,
    )
    if rank == 0:
        for sentence in loaded.overrides:
            print(f"probe: {sentence}", file=sys.stderr)
    return loaded.config


def _say_where_activations_rest(device: torch.device, rank: int) -> None:
    if device.type == "cpu" and rank == 0:
        print(
            "probe: activations rest in host memory, which is the device's own memory here:"
            " the path is the same, and nothing is saved",
            file=sys.stderr,
        )


def _source(args: Any, config: Source | None, config_params: Source | None) -> Source:
    named = getattr(args, "deepspeed_config", None)
    given = [each for each in (config, config_params, named) if each is not None]
    if not given:
        raise UsageError(
            "initialize needs a configuration: config=a dict, a path or a Config, or"
            " args.deepspeed_config"
        )
    chosen: Source = given[0]
    return chosen


def _facts(model: Module) -> ModelFacts:
    settings = getattr(model, "config", None)
    sizes = getattr(settings, "hidden_sizes", None) or [getattr(settings, "hidden_size", None)]
    known = [size for size in sizes if isinstance(size, int)]
    return ModelFacts(hidden_size=max(known) if known else None)


def _optimizer(
    config: Config,
    optimizer: Optimizer | Callable[[Groups], Optimizer] | None,
    model_parameters: Groups | None,
    model: Module,
) -> Optimizer | None:
    if isinstance(optimizer, Optimizer):
        return optimizer
    groups = model_parameters
    if groups is None:
        groups = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if optimizer is not None:
        return optimizer(groups)
    if config.optimizer is not None:
        return build_optimizer(config.optimizer, groups)
    return None


def _members(
    model: Module, optimizer: Optimizer | None, replaced: dict[Parameter, Parameter]
) -> list[Member]:
    """The model's parameters in order, tied ones once, each with its optimizer group."""
    group_of: dict[Parameter, int] = {}
    for number, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
        for parameter in group["params"]:
            group_of[replaced.get(parameter, parameter)] = number
    members = [
        Member(
            name=name,
            parameter=parameter,
            index=index,
            group=group_of.get(parameter) if parameter.requires_grad else None,
            shape=whole_shape(parameter),
        )
        for index, (name, parameter) in enumerate(model.named_parameters())
    ]
    strangers = set(group_of) - {member.parameter for member in members}
    if strangers:
        raise UsageError(
            f"the optimizer holds {len(strangers)} parameters that are not the model's; make it"
            " from model.parameters() of the model that is passed to initialize"
        )
    return members


def _schedule(config: Config, lr_scheduler: Any | None, optimizer: Optimizer) -> Any | None:
    if lr_scheduler is None:
        return None if config.schedule is None else build_schedule(optimizer, config.schedule)
    return lr_scheduler if hasattr(lr_scheduler, "step") else lr_scheduler(optimizer)
