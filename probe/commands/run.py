"""`probe run`: the options, and the request that they come to; `starting` carries it out."""

from pathlib import Path

import click

from probe.commands.choosing import DEFAULT_RUNS_DIR, RUNS_DIR_VARIABLE
from probe.commands.spelled import EveryBlock, Listed, StepRange
from probe.commands.starting import launch_and_tell, tell_plan
from probe.errors import UsageError
from probe.launch.request import (
    HANG_TIMEOUT_S,
    RunRequest,
    check_request,
    default_processes,
)
from probe.launch.resuming import find_origin
from probe.schema.documents import ProfileWindow
from probe.schema.handover import NUMERICS_EVERY_STEPS, RunFlags
from probe.schema.vocabulary import Precision, ProfileDetail, Tier

TIERS = {"cpu": Tier.HOST, "disk": Tier.DISK}


@click.command(
    "run",
    # Our options count before and after SCRIPT; what is not ours goes to the script as it stands.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--stage", type=click.IntRange(0, 3), help="ZeRO stage.")
@click.option("--fp32", "precision", flag_value=Precision.FP32.value, help="Compute in fp32.")
@click.option("--fp16", "precision", flag_value=Precision.FP16.value, help="fp16, loss scaling.")
@click.option("--bf16", "precision", flag_value=Precision.BF16.value, help="bf16 weights.")
@click.option("--amp", "precision", flag_value=Precision.AMP_BF16.value, help="bf16 autocast.")
@click.option(
    "--offload",
    type=click.Choice(["none", "optimizer", "params"]),
    help="What leaves the device between uses; params includes the optimizer.",
)
@click.option(
    "--offload-to",
    type=click.Choice(tuple(TIERS)),
    default="cpu",
    show_default=True,
    help="Where to.",
)
@click.option("--offload-path", metavar="DIR", help="Folder for --offload-to disk.")
@click.option("--accumulate", type=click.IntRange(min=1), metavar="K", help="Micro-batches a step.")
@click.option("--clip", type=click.FloatRange(min=0), metavar="NORM", help="Gradient norm; 0: off.")
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Save after every N steps, whatever the script saves.",
)
@click.option(
    "--checkpoint-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to. Default: checkpoints/ in the run directory.",
)
@click.option("--checkpoint-async", is_flag=True, help="While training goes on.")
@click.option("--keep-last", type=click.IntRange(min=1), metavar="K", help="Remove older ones.")
@click.option(
    "--resume",
    metavar="WHAT",
    help='Go on from a checkpoint, a folder of them, a run, or the "latest" of all runs.',
)
@click.option(
    "--checkpoint-activations",
    type=EveryBlock(),
    metavar="all|K|off",
    help="Compute all blocks, or every K-th, again in backward.",
)
@click.option(
    "--checkpoint-activations-to",
    type=click.Choice(["device", "cpu"]),
    help="Where what enters those blocks waits for backward.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="DeepSpeed JSON or Accelerate YAML, in place of what the script names.",
)
@click.option(
    "--nproc",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on this machine. Default: its GPUs, else two.",
)
@click.option("--nnodes", default="1", show_default=True, metavar="N", help="Machines.")
@click.option(
    "--node-rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Which machine this is; 0 begins the run.",
)
@click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where the machines meet.")
@click.option("--max-restarts", type=click.IntRange(min=0), default=0, help="After a failure.")
@click.option("--name", default="", metavar="TEXT", help="Name of the run. Default: the script's.")
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="A tag; may be repeated.")
@click.option("--notes", default="", metavar="TEXT", help="A remark to keep with the run.")
@click.option(
    "--runs-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_RUNS_DIR,
    envvar=RUNS_DIR_VARIABLE,
    show_default=True,
    show_envvar=True,
    metavar="DIR",
    help="Folder for the run directory.",
)
@click.option(
    "--profile-steps",
    type=StepRange(),
    metavar="A:B",
    help="Trace steps A to B-1 with torch.profiler; they count in no statistic.",
)
@click.option(
    "--profile-ranks",
    type=Listed(int),
    default="0",
    show_default=True,
    metavar="R,R…",
    help="Ranks that are traced.",
)
@click.option(
    "--profile-with",
    type=Listed(ProfileDetail),
    default="",
    metavar="WHAT",
    help=f"Also trace {', '.join(ProfileDetail)}; each makes it larger and slower.",
)
@click.option(
    "--numerics-every",
    type=click.IntRange(min=0),
    default=NUMERICS_EVERY_STEPS,
    show_default=True,
    metavar="K",
    help="Steps between looks at the exponents of gradients and weights; 0: never.",
)
@click.option(
    "--expect-steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Steps the script will take, for the time that is left.",
)
@click.option(
    "--hang-timeout",
    type=click.FloatRange(min=1),
    default=HANG_TIMEOUT_S,
    show_default=True,
    metavar="S",
    help="Say who waits for whom when a rank has not moved for so many seconds.",
)
@click.option("--hang-end", is_flag=True, help="And end the run.")
@click.option("--no-record", is_flag=True, help="Only run; write nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be started, and start nothing.")
@click.pass_context
def command(
    ctx: click.Context,
    script: Path,
    arguments: tuple[str, ...],
    stage: int | None,
    precision: str | None,
    offload: str | None,
    offload_to: str,
    offload_path: str | None,
    accumulate: int | None,
    clip: float | None,
    checkpoint_every: int | None,
    checkpoint_dir: Path | None,
    checkpoint_async: bool,
    keep_last: int | None,
    resume: str | None,
    checkpoint_activations: int | None,
    checkpoint_activations_to: str | None,
    config: Path | None,
    nproc: int | None,
    nnodes: str,
    node_rank: int | None,
    rdzv_endpoint: str | None,
    max_restarts: int,
    name: str,
    tags: tuple[str, ...],
    notes: str,
    runs_dir: Path,
    profile_steps: tuple[int, int] | None,
    profile_ranks: list[int],
    profile_with: list[ProfileDetail],
    numerics_every: int,
    expect_steps: int | None,
    hang_timeout: float,
    hang_end: bool,
    no_record: bool,
    dry_run: bool,
) -> None:
    """Start SCRIPT on several ranks, record it, tell what stands out.

    Flags win over the script's configuration. Arguments that are not listed here go to the script;
    after `--` all do. The exit code is that of the first rank that failed.

    \b
    Example: probe run train.py --stage 3 --bf16
             probe run --nproc 4 --config ds.json train.py --epochs 2
             probe run train.py --stage 3 --checkpoint-every 50 --resume latest
    """
    if nnodes != "1" and not rdzv_endpoint:
        raise UsageError(
            f"--nnodes {nnodes} needs --rdzv-endpoint HOST:PORT, equal on all machines."
        )
    if nnodes != "1" and node_rank is None:
        raise UsageError(
            f"--nnodes {nnodes} needs --node-rank: 0 on one machine, another number on each other."
        )
    where = TIERS[offload_to]
    tiers = {
        None: (None, None),
        "none": (Tier.DEVICE, Tier.DEVICE),
        "optimizer": (where, Tier.DEVICE),
        "params": (where, where),
    }[offload]
    origin = None if resume is None else find_origin(resume, runs_dir)
    request = RunRequest(
        script=script,
        arguments=arguments,
        processes=nproc or default_processes(),
        nodes=nnodes,
        node_rank=node_rank or 0,
        rendezvous=rdzv_endpoint,
        max_restarts=max_restarts,
        config=config,
        flags=RunFlags(
            stage=stage,
            precision=Precision(precision) if precision else None,
            offload_optimizer=tiers[0],
            offload_params=tiers[1],
            disk_path=offload_path,
            accumulation_steps=accumulate,
            clip_norm=clip,
            checkpoint_dir=str(checkpoint_dir.resolve()) if checkpoint_dir else None,
            checkpoint_every_steps=checkpoint_every,
            checkpoint_keep_last=keep_last,
            checkpoint_asynchronous=checkpoint_async or None,
            resume=str(origin.checkpoint) if origin else None,
            checkpoint_every_block=checkpoint_activations,
            activations_to_host=None
            if checkpoint_activations_to is None
            else checkpoint_activations_to == "cpu",
        ),
        name=name,
        tags=tags,
        notes=notes,
        runs_dir=runs_dir,
        record=not no_record,
        parent=origin.run if origin else "",
        profile=None
        if profile_steps is None
        else ProfileWindow(
            first_step=profile_steps[0],
            end_step=profile_steps[1],
            ranks=profile_ranks,
            details=profile_with,
        ),
        numerics_every=numerics_every,
        expected_steps=expect_steps,
        hang_timeout_s=hang_timeout,
        end_on_hang=hang_end,
    )
    check_request(request)
    if dry_run:
        tell_plan(request)
        return
    ctx.exit(launch_and_tell(request))
