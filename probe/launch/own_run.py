"""What the launcher writes that began a run: its directory, the manifest, output, and the seal.

Where other machines join, their launchers write beside it, and the seal waits for their word; for
that of a late one it waits with them (`completion`).
"""

import time
from collections.abc import Callable

from probe.launch.completion import complete, silent_nodes
from probe.launch.hang import HangWatch
from probe.launch.output_log import OutputLog
from probe.launch.processes import Outcome, RankProcesses
from probe.launch.progress import Progress, Watcher
from probe.launch.request import RunRequest, environment_of
from probe.launch.surroundings import (
    allowed_environment,
    git_facts,
    host_facts,
    masked_arguments,
    package_versions,
    script_hash,
)
from probe.read.documents import read_header
from probe.read.inside import listed_ranks
from probe.read.nodes import machine_of_ranks
from probe.record.run import RunWriter
from probe.schema.documents import Manifest, RunConfig
from probe.schema.layout import OUTPUT
from probe.schema.vocabulary import Tier

LAST_WORDS_S = 20.0
"""How long the seal waits for the other machines; their ranks end within seconds of ours."""
_ASK_EVERY_S = 0.2


class OwnRun:
    """The record of a run that this machine began."""

    began_here = True

    def __init__(self, request: RunRequest, invocation: list[str]) -> None:
        self._request = request
        self._writer = RunWriter.create(request.runs_dir, _first_manifest(request, invocation))
        self.path = self._writer.path
        self.environment = environment_of(request, self.path)
        self._log = OutputLog(self.path / OUTPUT)
        self._watcher = Watcher(self.path, request.expected_steps)
        self._hangs = HangWatch(self.path, request.hang_timeout_s)
        self._told_config = False

    def add(self, chunk: bytes) -> None:
        """Keep what the ranks printed."""
        self._log.add(chunk)

    def look(self, processes: RankProcesses, say: Callable[[bytes, bool], None]) -> Progress:
        """Where the run stands; a hang is told, noted, and ended if that is wanted."""
        self._told_config = self._told_config or _copy_engine_facts(self._writer)
        hang = self._hangs.look()
        if hang is not None:
            say(f"probe: {hang.message}\n".encode(), True)
            self._writer.update(hangs=[*self._writer.manifest.hangs, hang])
            if self._request.end_on_hang:
                processes.end()
        return self._watcher.look()

    def close(self, outcome: Outcome, say: Callable[[bytes, bool], None]) -> None:
        """Say how it ended, and seal."""
        self._log.close()
        if not self.path.is_dir():
            return  # Somebody removed it; the ranks have said so.
        _copy_engine_facts(self._writer)
        self._writer.finish(outcome.status, self._exit_codes(outcome))
        silent = self._wait_for_others()
        if silent:
            # From here on it is theirs to seal. Who spoke before this was written did not know.
            self._writer.update(awaited_nodes=silent)
            silent = self._silent()
        if not silent:
            complete(self.path)
            return
        nodes = ", ".join(map(str, silent))
        say(
            f"probe: machine {nodes} has not said how it ended, and seals the run when it does; "
            f"if it never will, `probe seal {self.path}`.\n".encode(),
            True,
        )

    def _exit_codes(self, outcome: Outcome) -> dict[int, int]:
        if outcome.code:
            return outcome.exit_codes
        if self._request.nodes == "1":
            return dict.fromkeys(range(self._request.processes), 0)
        own = self._request.node_rank
        return {rank: 0 for rank, node in machine_of_ranks(self.path).items() if node == own}

    def _wait_for_others(self) -> list[int]:
        """The other machines that are silent although they had time to speak."""
        deadline_s = time.monotonic() + LAST_WORDS_S
        while (silent := self._silent()) and time.monotonic() < deadline_s:
            time.sleep(_ASK_EVERY_S)
        return silent

    def _silent(self) -> list[int]:
        return [] if self._request.nodes == "1" else silent_nodes(self.path)


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
        # Of a range of machines only the least was known, and more may have come.
        world_size=max(manifest.world_size, len(listed_ranks(writer.path)[0])),
    )
    return True
