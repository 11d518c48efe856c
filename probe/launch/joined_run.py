"""What a launcher writes whose machine joins a run: what its ranks print, and how they ended.

The ranks learn which run it is when they meet the others, and leave word in a file of this machine.
Where the folder of runs is not shared, the directory has the name that it has there, and holds what
this machine wrote; a copy of one into the other makes the run whole.
"""

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from probe.launch.completion import complete, silent_nodes
from probe.launch.output_log import TAIL_BYTES, OutputLog
from probe.launch.processes import Outcome, RankProcesses
from probe.launch.progress import Progress, Watcher
from probe.launch.request import RunRequest, environment_of
from probe.launch.surroundings import host_facts, package_versions
from probe.read.documents import read_manifest
from probe.read.nodes import machine_of_ranks
from probe.record.node import NodeWriter
from probe.schema.codec import decode_document
from probe.schema.documents import NodeFacts
from probe.schema.layout import OFFLOAD_DIR, node_output


class JoinedRun:
    """The record of a machine that joins a run."""

    began_here = False

    def __init__(self, request: RunRequest) -> None:
        descriptor, name = tempfile.mkstemp(prefix="probe-run-")
        os.close(descriptor)
        self._word_file = Path(name)
        self._request = request
        self._began_ns = time.time_ns()
        self.path: Path | None = None
        self.environment = environment_of(request, None, self._word_file)
        self._waiting: deque[bytes] = deque(maxlen=TAIL_BYTES >> 8)
        self._turn = threading.Lock()
        self._log: OutputLog | None = None
        self._writer: NodeWriter | None = None
        self._watcher: Watcher | None = None
        self._run = NodeFacts()

    def add(self, chunk: bytes) -> None:
        """Keep what the ranks printed, in memory until there is a place for it."""
        with self._turn:
            if self._log is None:
                self._waiting.append(chunk)
            else:
                self._log.add(chunk)

    def look(self, processes: RankProcesses, say: Callable[[bytes, bool], None]) -> Progress | None:
        """Where the run stands, as far as it can be seen from here."""
        self._join()
        return self._watcher.look() if self._watcher and self._is_shared() else None

    def close(self, outcome: Outcome, say: Callable[[bytes, bool], None]) -> None:
        """Say how the ranks of this machine ended, and where to look."""
        self._join()
        self._word_file.unlink(missing_ok=True)
        if self.path is None or self._writer is None or self._log is None:
            say(b"probe: this machine met no other and joined no run.\n", True)
            return
        self._log.close()
        codes = outcome.exit_codes if outcome.code else dict.fromkeys(self._own_ranks(), 0)
        self._writer.finish(outcome.status, codes)
        number = self._request.node_rank
        told = f"probe: machine {number} {outcome.status}; "
        if self._is_shared():
            if self._is_last():
                complete(self.path)
            say(f"{told}its ranks are recorded in {self.path}\n".encode(), True)
            return
        shutil.rmtree(self.path / OFFLOAD_DIR, ignore_errors=True)
        told += (
            f"{self._request.runs_dir} is not the folder of machine 0, so its ranks are recorded "
            f"here alone. To bring them together, copy this folder into the one of the same name "
            f"there and seal it:\n"
            f"  rsync -a {self.path}/ MACHINE0:RUNS/{self.path.name}/\n"
            f"  probe seal RUNS/{self.path.name}\n"
        )
        say(told.encode(), True)

    def _join(self) -> None:
        """Begin to write once the ranks have said where."""
        if self.path is not None:
            return
        try:
            word = self._word_file.read_bytes()
        except OSError:
            return
        if not word:
            return
        self._run, _ = decode_document(word, NodeFacts)
        self.path = self._request.runs_dir / self._run.run_id
        number = self._request.node_rank
        self._watcher = Watcher(self.path, self._request.expected_steps)
        self._writer = NodeWriter(
            self.path,
            NodeFacts(
                run_id=self._run.run_id,
                node=number,
                started_ns=self._began_ns,
                host=host_facts(),
                versions=package_versions(),
            ),
        )
        log = OutputLog(self.path / node_output(number))
        with self._turn:
            while self._waiting:
                log.add(self._waiting.popleft())
            self._log = log

    def _is_shared(self) -> bool:
        """Whether what machine 0 wrote is seen here."""
        assert self.path is not None, "asked once the run is known"
        manifest, _ = read_manifest(self.path)
        return manifest is not None and manifest.started_ns == self._run.started_ns

    def _is_last(self) -> bool:
        """Whether machine 0 went without us, and all others have spoken."""
        assert self.path is not None, "asked once the run is known"
        manifest, _ = read_manifest(self.path)
        if manifest is None or self._request.node_rank not in manifest.awaited_nodes:
            return False
        return not silent_nodes(self.path)

    def _own_ranks(self) -> list[int]:
        assert self.path is not None, "asked once the run is known"
        machine_of = machine_of_ranks(self.path)
        return [rank for rank, node in machine_of.items() if node == self._request.node_rank]
