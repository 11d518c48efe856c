"""A whole model as one file for others to load: what `torch.load` reads, written all or nothing."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.checkpoint.folder import sync_folder
from probe.schema.layout import TEMPORARY_SUFFIX


def export_model(state: Mapping[str, Tensor], path: Path) -> None:
    """Write a plain state dict."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
