"""What a script may call: DeepSpeed's signatures where they overlap."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.export import export_model


class CheckpointCalls:
    """An engine's calls for checkpoints; they do nothing but pass on."""

    checkpoints: Checkpoints
    global_rank: int

    @abstractmethod
    def consolidated_state_dict(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The whole model on the host of rank 0; the engine's questions answer that."""

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike[str],
        tag: str | int | None = None,
        client_state: Mapping[str, Any] | None = None,
        save_latest: bool = True,
        *,
        keep_last: int | None = None,
        asynchronous: bool | None = None,
    ) -> bool:
        """Save all that is needed to go on, under a tag in a folder; every rank must call it."""
        self.checkpoints.save(
            Path(save_dir),
            None if tag is None else str(tag),
            client_state,
            as_latest=save_latest,
            keep_last=keep_last,
            asynchronous=asynchronous,
        )
        return True

    def load_checkpoint(
        self,
        load_dir: str | os.PathLike[str],
        tag: str | int | None = None,
        *,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
    ) -> tuple[str | None, dict[str, Any]]:
        """Go on from a checkpoint; its path and the client state, or (None, {}) without any."""
        path, client_state = self.checkpoints.load(
            Path(load_dir),
            None if tag is None else str(tag),
            optimizer_states=load_optimizer_states,
            schedule=load_lr_scheduler_states,
            module_only=load_module_only,
        )
        return None if path is None else str(path), client_state

    def save_16bit_model(
        self, save_dir: str | os.PathLike[str], save_filename: str = "pytorch_model.bin"
    ) -> bool:
        """The whole model in the type it computes in, as one file for torch.load."""
        state = self.consolidated_state_dict()
        if self.global_rank == 0:
            export_model(state, Path(save_dir) / save_filename)
        return True

    def remember(self, **things: Any) -> None:
        """Save and restore these with every checkpoint: generators, or what has a state_dict()."""
        for name, thing in things.items():
            self.checkpoints.remembered.add(name, thing)
