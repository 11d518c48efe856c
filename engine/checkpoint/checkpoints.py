"""The checkpoints of one engine: those that it is asked for, and those of its own accord."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.checkpoint import folder as folders
from engine.checkpoint.documents import read_main
from engine.checkpoint.fitting import Wanted
from engine.checkpoint.loader import Loader
from engine.checkpoint.parts import Parts
from engine.checkpoint.saver import Saver
from engine.collectives.start import restarts
from probe.schema.layout import CHECKPOINTS_DIR, LATEST_CHECKPOINT


@dataclass(frozen=True, kw_only=True)
class Job:
    """Where a job's own checkpoints lie when nobody says, and who wrote them."""

    name: str = ""
    folder: Path = Path(CHECKPOINTS_DIR)


class Checkpoints:
    """What the engine does with checkpoints."""

    def __init__(self, parts: Parts) -> None:
        self._policy = parts.config.checkpoint
        self._saver = Saver(parts)
        self._loader = Loader(parts)
        self.remembered = parts.remembered
        self.job = Job()

    @property
    def folder(self) -> Path:
        """Where the engine saves by itself."""
        return self.job.folder if self._policy.folder is None else Path(self._policy.folder)

    def save_if_due(self, steps: int) -> None:
        """Save if the configuration asks for it after so many steps."""
        every = self._policy.every_steps
        if every and steps % every == 0:
            self.save(self.folder)

    def save(
        self,
        folder: Path,
        tag: str | None = None,
        client_state: Mapping[str, Any] | None = None,
        *,
        as_latest: bool = True,
        keep_last: int | None = None,
        asynchronous: bool | None = None,
    ) -> None:
        """Save; all ranks ask. Asynchronously it returns once everything is copied to the host."""
        self._saver.save(
            folder,
            tag,
            client_state,
            job=self.job.name,
            as_latest=as_latest,
            keep_last=keep_last,
            asynchronous=asynchronous,
        )

    def load(
        self,
        folder: Path,
        tag: str | None = None,
        *,
        optimizer_states: bool = True,
        schedule: bool = True,
        module_only: bool = False,
    ) -> tuple[Path | None, dict[str, Any]]:
        """Restore; all ranks ask. The checkpoint's path and the client state, or (None, {})."""
        self._saver.settle_together()
        wanted = Wanted(
            optimizer=optimizer_states and not module_only,
            schedule=schedule and not module_only,
            position=not module_only,
        )
        return self._loader.load(folder, tag, wanted)

    def resume(self) -> Path | None:
        """Go on where the configuration says; the checkpoint, or None where there is none."""
        policy = self._policy
        if restarts() and self.job.name:
            tag = folders.latest_tag(self.folder)
            # Whatever else lies there is not what this job was doing when it failed.
            if (
                tag is not None
                and read_main(folders.path_of(self.folder, tag)).job == self.job.name
            ):
                return self.load(self.folder, tag)[0]
        if policy.resume is None:
            return None
        if policy.resume == LATEST_CHECKPOINT:
            return self.load(self.folder)[0]
        return self.load(*folders.locate(Path(policy.resume)))[0]

    def finish(self) -> None:
        """Wait for a save that still goes on behind; raise if it failed."""
        self._saver.finish()
