"""Which checkpoint `--resume` means, and which run it comes from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probe.errors import UsageError
from probe.read.discovery import holds_run, run_paths
from probe.schema.layout import CHECKPOINT_DOCUMENT, CHECKPOINTS_DIR, LATEST_CHECKPOINT

_LONGEST_DOCUMENT_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a resumed run comes from."""

    checkpoint: Path
    run: str
    """Name of the run that saved it; empty if that was none."""


def find_origin(text: str, runs_dir: Path) -> Origin:
    """From "latest", a checkpoint, a folder of checkpoints, or a run by its path or name."""
    if text == LATEST_CHECKPOINT:
        return _newest(runs_dir)
    for path in (Path(text), runs_dir / text):
        if path.is_dir():
            found = _checkpoint_of(path)
            if found is None:
                raise UsageError(
                    f"--resume {text}: {path} holds no checkpoint; --checkpoint-every N saves some."
                )
            return Origin(checkpoint=found, run=_run_of(found, runs_dir))
    raise UsageError(
        f"--resume {text}: there is neither a folder of that name nor such a run in {runs_dir}."
    )


def _newest(runs_dir: Path) -> Origin:
    """The checkpoint that was saved last, of all runs."""
    candidates = [
        (marker.stat().st_mtime_ns, found)
        for run in run_paths(runs_dir)
        if (marker := run / CHECKPOINTS_DIR / LATEST_CHECKPOINT).is_file()
        and (found := _checkpoint_of(run)) is not None
    ]
    if not candidates:
        raise UsageError(
            f"--resume latest: no run in {runs_dir} has a checkpoint; --checkpoint-every N saves"
            " some."
        )
    _, found = max(candidates)
    return Origin(checkpoint=found, run=_run_of(found, runs_dir))


def _checkpoint_of(path: Path) -> Path | None:
    for candidate in _candidates(path):
        if (candidate / CHECKPOINT_DOCUMENT).is_file():
            return candidate.resolve()
    return None


def _candidates(path: Path) -> Iterator[Path]:
    yield path
    for folder in (path, path / CHECKPOINTS_DIR):
        try:
            tag = (folder / LATEST_CHECKPOINT).read_text(errors="replace").strip()
        except OSError:
            continue
        if tag and "/" not in tag and not tag.startswith("."):
            yield folder / tag


def _run_of(checkpoint: Path, runs_dir: Path) -> str:
    """By where it lies, else by what it says of itself."""
    folder = checkpoint.parent
    if folder.name == CHECKPOINTS_DIR and holds_run(folder.parent):
        return folder.parent.name
    document = checkpoint / CHECKPOINT_DOCUMENT
    try:
        if document.stat().st_size > _LONGEST_DOCUMENT_BYTES:
            return ""
        job = json.loads(document.read_bytes())["content"]["job"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # The engine says what is wrong with it.
    return job if isinstance(job, str) and job and holds_run(runs_dir / Path(job).name) else ""
