"""Saving, as all ranks do it together: nothing is begun, written or published unless all can."""

import logging
from collections.abc import Mapping
from pathlib import Path
from time import monotonic_ns
from typing import Any

from engine.checkpoint import folder as folders
from engine.checkpoint.documents import (
    KIND,
    VERSION,
    Counters,
    MainDocument,
    OptimizerFacts,
    ParameterFacts,
)
from engine.checkpoint.own_state import capture_random
from engine.checkpoint.parts import Parts, Times, tell
from engine.checkpoint.pieces import Holdings, saved_buffers
from engine.checkpoint.plain import to_plain
from engine.checkpoint.positions import groups_of, scaling_of, schedule_of
from engine.checkpoint.saving import Background, Save, SaveError, Snapshot, reason
from probe.errors import ProbeError, UsageError
from probe.schema.vocabulary import EventKind, Phase

logger = logging.getLogger("zeroprobe")


class Saver:
    """Saves what an engine holds; at most one save goes on behind the training."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rank = parts.collectives.rank
        self._world = parts.collectives.world
        self._background: Background | None = None

    def save(
        self,
        folder: Path,
        tag: str | None,
        client_state: Mapping[str, Any] | None,
        *,
        job: str,
        as_latest: bool,
        keep_last: int | None,
        asynchronous: bool | None,
    ) -> None:
        """Save; all ranks ask. Asynchronously it returns once everything is copied to the host."""
        policy, counters = self._parts.config.checkpoint, self._parts.counters()
        if counters is None:
            raise UsageError(
                f"rank {self._rank}: a checkpoint holds no gradients, and this step has some;"
                " save after the engine.step() that ends it"
            )
        tag = folders.own_tag(counters.global_steps) if tag is None else str(tag)
        began_ns = monotonic_ns()
        with self._parts.clock.phase(Phase.CHECKPOINT):
            self.settle_together()
            save: Save | None = None
            error: Exception | None = None
            try:
                folders.require_tag(tag)
                save = Save(
                    folder=folder,
                    tag=tag,
                    rank=self._rank,
                    world=self._world,
                    main=self._describe(tag, counters, job, client_state),
                    own=self._own_state(),
                    as_latest=as_latest,
                    keep_last=policy.keep_last if keep_last is None else keep_last,
                )
                if self._rank == 0:
                    folders.begin(folder, tag)
            except (ProbeError, OSError) as caught:
                error = caught
            self._agree(error, folder, tag)
            assert save is not None, "or there is an error"
            holdings = Holdings(
                module=self._parts.module,
                stage=self._parts.stage,
                update=self._parts.update,
                rank=self._rank,
                world=self._world,
            )
            if policy.asynchronous if asynchronous is None else asynchronous:
                self._go_on_behind(save, holdings, began_ns)
            else:
                self._write_now(save, holdings, began_ns)

    def finish(self) -> None:
        """Wait for a save that still goes on behind; raise if it failed."""
        background = self._background
        if background is None:
            return
        self._background = None
        background.thread.join()
        if background.error is not None:
            raise background.error

    def _write_now(self, save: Save, holdings: Holdings, began_ns: int) -> None:
        size_bytes = 0
        error: Exception | None = None
        try:
            size_bytes = save.write(holdings)
        except (ProbeError, OSError) as caught:
            error = caught
        self._agree(error, save.folder, save.tag)
        if self._rank == 0:
            try:
                save.commit()
            except (ProbeError, OSError) as caught:
                error = caught
        self._agree(error, save.folder, save.tag)
        now_ns = monotonic_ns()
        times = Times(began_ns=began_ns, free_ns=now_ns, ended_ns=now_ns)
        tell(self._parts, EventKind.CHECKPOINT_SAVED, save.tag, times, size_bytes)

    def _go_on_behind(self, save: Save, holdings: Holdings, began_ns: int) -> None:
        snapshot = Snapshot(holdings)
        free_ns = monotonic_ns()

        def ended(background: Background) -> None:
            if background.error is None:
                times = Times(began_ns=began_ns, free_ns=free_ns, ended_ns=background.ended_ns)
                tell(
                    self._parts,
                    EventKind.CHECKPOINT_SAVED,
                    save.tag,
                    times,
                    background.size_bytes,
                )
            else:
                logger.warning("%s", _not_saved(save.folder, save.tag, reason(background.error)))

        self._background = Background(save, snapshot, ended)
        self._background.thread.start()

    def settle_together(self) -> None:
        """The save before this one is over, and on no rank it failed."""
        if self._background is None:
            return
        try:
            self.finish()
        except (ProbeError, OSError) as error:
            verdict: str | None = reason(error)
        else:
            verdict = None
        self._share_verdict(verdict, "an earlier checkpoint could not be saved")

    def _agree(self, error: Exception | None, folder: Path, tag: str) -> None:
        """Go on only if nothing went wrong on any rank; else all raise."""
        try:
            self._share_verdict(
                None if error is None else reason(error), _not_saved(folder, tag, "")
            )
        except ProbeError:
            if self._rank == 0:
                folders.abandon(folder, tag)
            if isinstance(error, UsageError):
                raise error from None
            raise

    def _share_verdict(self, verdict: str | None, what: str) -> None:
        verdicts = self._parts.collectives.share_objects(verdict, block="checkpoint verdicts")
        for rank, each in enumerate(verdicts):
            if each is not None:
                raise SaveError(f"{what.rstrip(': ')}: rank {rank}: {each}")

    def _describe(
        self, tag: str, counters: Counters, job: str, client_state: Mapping[str, Any] | None
    ) -> MainDocument:
        parts = self._parts
        optimizer = None if parts.update is None else parts.update.optimizer
        return MainDocument(
            kind=KIND,
            version=VERSION,
            tag=tag,
            job=job,
            world=self._world,
            stage=parts.config.zero.stage,
            precision=parts.config.precision.precision.value,
            accumulation_steps=parts.config.batch.accumulation_steps,
            parameters={
                member.name: ParameterFacts(
                    shape=list(member.shape), trained=member.group is not None
                )
                for member in parts.members
            },
            buffers={
                name: list(buffer.shape) for name, buffer in saved_buffers(parts.module).items()
            },
            counters=counters,
            scaling=scaling_of(parts.scaler),
            optimizer=None
            if optimizer is None
            else OptimizerFacts(kind=type(optimizer).__name__, groups=groups_of(optimizer)),
            schedule=schedule_of(parts.schedule),
            client_state=to_plain(dict(client_state or {}), "client_state"),
            files={},
        )

    def _own_state(self) -> dict[str, Any]:
        return {
            "random": capture_random(self._parts.device),
            "remembered": self._parts.remembered.capture(),
        }


def _not_saved(folder: Path, tag: str, why: str) -> str:
    return f"checkpoint {tag} could not be saved in {folder}: {why}"
