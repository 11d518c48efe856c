"""Loading: whatever can be wrong is looked for before anything of the engine changes.

All ranks look together; one that finds a fault keeps the others from loading.
"""

from pathlib import Path
from time import monotonic_ns
from typing import Any

from engine.checkpoint import folder as folders
from engine.checkpoint.documents import Counters, Opened, open_checkpoint
from engine.checkpoint.fitting import Wanted
from engine.checkpoint.own_state import restore_random
from engine.checkpoint.parts import Parts, Times, tell
from engine.checkpoint.plain import from_plain
from engine.checkpoint.positions import restore_groups, restore_scaler, restore_schedule
from probe.errors import ProbeError
from probe.schema.vocabulary import EventKind, Phase


class Loader:
    """Gives an engine what a checkpoint holds."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def load(
        self,
        folder: Path,
        tag: str | None,
        wanted: Wanted,
    ) -> tuple[Path | None, dict[str, Any]]:
        """Restore; all ranks ask. The checkpoint's path and the client state, or (None, {})."""
        began_ns = monotonic_ns()
        with self._parts.clock.phase(Phase.CHECKPOINT):
            if tag is None:
                # What is latest may change while ranks look one after another.
                tag = self._parts.collectives.share_objects(
                    folders.latest_tag(folder), block="checkpoint tag"
                )[0]
            if tag is None:
                return None, {}
            checkpoint = self._open(folder, str(tag), wanted)
            self._restore(checkpoint, wanted)
        now_ns = monotonic_ns()
        times = Times(began_ns=began_ns, free_ns=now_ns, ended_ns=now_ns)
        tag, size_bytes = checkpoint.main.tag, checkpoint.data_bytes
        tell(self._parts, EventKind.CHECKPOINT_LOADED, tag, times, size_bytes)
        return checkpoint.path, from_plain(checkpoint.main.client_state)

    def _open(self, folder: Path, tag: str, wanted: Wanted) -> Opened:
        from engine.checkpoint.restoring import validate

        checkpoint: Opened | None = None
        error: ProbeError | None = None
        try:
            checkpoint = open_checkpoint(folders.path_of(folder, tag))
            validate(checkpoint, self._parts, wanted)
        except ProbeError as caught:
            error = caught
        verdicts = self._parts.collectives.share_objects(
            None if error is None else str(error), block="checkpoint verdicts"
        )
        if error is not None:
            raise error
        for rank, verdict in enumerate(verdicts):
            if verdict is not None:
                raise ProbeError(f"{verdict} (found by rank {rank})")
        assert checkpoint is not None, "or there is an error"
        return checkpoint

    def _restore(self, checkpoint: Opened, wanted: Wanted) -> None:
        # Here, because torch.distributed.checkpoint takes most of a second to import.
        from engine.checkpoint.restoring import restore_tensors

        parts, main = self._parts, checkpoint.main
        restore_tensors(checkpoint, parts, wanted)
        if not wanted.position:
            return
        if wanted.optimizer and parts.update is not None and main.optimizer is not None:
            restore_groups(parts.update.optimizer, main.optimizer.groups)
        if wanted.schedule and main.schedule is not None:
            restore_schedule(parts.schedule, main.schedule)
        restore_scaler(parts.scaler, main.scaling)
        accumulation = parts.config.batch.accumulation_steps
        counters = main.counters
        if accumulation != main.accumulation_steps:
            counters = Counters(
                global_steps=counters.global_steps,
                skipped_steps=counters.skipped_steps,
                micro_steps=counters.global_steps * accumulation,
                last_applied_step=counters.last_applied_step,
            )
        parts.begin_at(counters)
        # A rank beyond those that saved has random numbers of its own already.
        known = parts.collectives.rank < main.world
        own = checkpoint.ranks[parts.collectives.rank % main.world].own
        if known:
            restore_random(own["random"], parts.device)
        parts.remembered.restore(own["remembered"], generators=known)
