"""One recorded run from the first process to the sealed directory.

Whatever happens to the ranks, the data stays and the manifest says how it ended; whatever happens
to the disk, the ranks go on.
"""

import logging
import shutil
import time
from collections.abc import Callable

from probe.distill import distill_run
from probe.errors import ProbeError
from probe.launch.hang import HangWatch
from probe.launch.output_log import OutputLog
from probe.launch.processes import Finished, Outcome, RankProcesses
from probe.launch.progress import Progress, Watcher
from probe.launch.request import RunRequest, command_of, environment_of
from probe.launch.surroundings import (
    allowed_environment,
    git_facts,
    host_facts,
    masked_arguments,
    package_versions,
    script_hash,
)
from probe.read.documents import read_header
from probe.record.run import RunWriter
from probe.schema.documents import Manifest, RunConfig
from probe.schema.layout import OFFLOAD_DIR, OUTPUT
from probe.schema.vocabulary import Tier
from probe.seal import seal_run

logger = logging.getLogger("zeroprobe")

LOOK_EVERY_S = 0.5


def launch(
    request: RunRequest,
    *,
    invocation: list[str],
    on_output: Callable[[bytes, bool], None],
    on_progress: Callable[[Progress], None],
) -> Finished:
    """Start the ranks, follow them to their end, seal what they wrote."""
    began_ns = time.monotonic_ns()
    writer = (
        RunWriter.create(request.runs_dir, _first_manifest(request, invocation))
        if request.record
        else None
    )
    environment = environment_of(request, writer.path if writer else None)
    log = OutputLog(writer.path / OUTPUT) if writer else None

    def pass_on(chunk: bytes, is_error: bool) -> None:
        on_output(chunk, is_error)
        if log is not None:
            log.add(chunk)

    processes = RankProcesses(
        lambda report: command_of(request, report), environment, on_output=pass_on
    )
    try:
        _follow(processes, writer, request, pass_on, on_progress)
    except KeyboardInterrupt:
        processes.interrupt()
    except BaseException:
        # Whatever befell the launcher, it leaves no ranks behind.
        processes.interrupt()
        raise
    outcome = processes.outcome()
    if log is not None:
        log.close()
    if writer is not None:
        _close(writer, request, outcome)
    return Finished(
        outcome=outcome,
        run_dir=writer.path if writer else None,
        wall_ns=time.monotonic_ns() - began_ns,
    )


def _follow(
    processes: RankProcesses,
    writer: RunWriter | None,
    request: RunRequest,
    say: Callable[[bytes, bool], None],
    on_progress: Callable[[Progress], None],
) -> None:
    watcher = Watcher(writer.path, request.expected_steps) if writer else None
    hangs = HangWatch(writer.path, request.hang_timeout_s) if writer else None
    told_config = False
    while not processes.wait(LOOK_EVERY_S):
        if writer is not None and watcher is not None and hangs is not None:
            told_config = told_config or _copy_engine_facts(writer)
            on_progress(watcher.look())
            hang = hangs.look()
            if hang is not None:
                say(f"probe: {hang.message}\n".encode(), True)
                writer.update(hangs=[*writer.manifest.hangs, hang])
                if request.end_on_hang:
                    processes.end()


def _first_manifest(request: RunRequest, invocation: list[str]) -> Manifest:
    """What is known before the first process starts."""
    nodes = request.nodes.partition(":")[0]
    environment = environment_of(request, None)
    return Manifest(
        name=request.name or request.script.stem,
        tags=list(request.tags),
        notes=request.notes,
        expected_steps=request.expected_steps,
        command=masked_arguments(invocation),
        parent=request.parent,
        resumed_from=request.flags.resume or "",
        script=str(request.script),
        script_sha256=script_hash(request.script),
        world_size=request.processes * (int(nodes) if nodes.isdigit() else 1),
        config=RunConfig(
            precision=request.flags.precision,
            stage=request.flags.stage,
            offload_optimizer=request.flags.offload_optimizer or Tier.DEVICE,
            offload_params=request.flags.offload_params or Tier.DEVICE,
        ),
        hosts=[host_facts()],
        versions=package_versions(),
        git=git_facts(request.script.resolve().parent),
        environment=allowed_environment(environment),
    )


def _copy_engine_facts(writer: RunWriter) -> bool:
    """Put what rank 0 says of its engine into the manifest; False while it says nothing."""
    header, _ = read_header(writer.path, 0)
    if header is None or header.config is None:
        return False
    manifest = writer.manifest
    writer.update(
        recorder=header.engine or manifest.recorder,
        config=header.config,
        model=header.model or manifest.model,
        versions={**manifest.versions, **header.versions},
        seeds=header.seeds,
    )
    return True


def _close(writer: RunWriter, request: RunRequest, outcome: Outcome) -> None:
    """Say how it ended, and seal."""
    if not writer.path.is_dir():
        return  # Somebody removed it; the ranks have said so.
    _copy_engine_facts(writer)
    # A rank that was killed leaves what it kept there, which may be large and is of no use.
    shutil.rmtree(writer.path / OFFLOAD_DIR, ignore_errors=True)
    ended_well = outcome.code == 0
    codes = dict.fromkeys(range(request.processes), 0) if ended_well else outcome.exit_codes
    writer.finish(outcome.status, codes)
    try:
        if request.profile is not None:
            for problem in distill_run(writer.path).problems:
                logger.warning("%s %s", problem.file, problem.what)
        seal_run(writer.path)
    except (ProbeError, OSError) as error:
        logger.warning("%s is not sealed, and reads all the same: %s", writer.path, error)
