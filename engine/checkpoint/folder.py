"""The folder that checkpoints lie in: a new one appears whole or not at all.

    .saving-<tag>/     while it is written        -> the next save clears it, if its writer died
    <tag>/             renamed once every byte of it is on disk
    latest             replaced after that
    .replaced-<tag>/   an older one of the same tag, in the moment between two renames
    .removing-<tag>/   on its way out

At every instant `latest`, or what took its place for that moment, is a whole checkpoint.
"""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from engine.checkpoint.documents import read_main
from probe.errors import ProbeError, UsageError
from probe.record.replacing import replace_file
from probe.schema.layout import CHECKPOINT_DOCUMENT, CHECKPOINTS_DIR, LATEST_CHECKPOINT

_SAVING, _REPLACED, _REMOVING = ".saving-", ".replaced-", ".removing-"
_LONGEST_TAG = 200
_OWN_TAG = re.compile(r"global_step(\d{1,18})")


def own_tag(step: int) -> str:
    """The tag of a checkpoint that nobody named."""
    return f"global_step{step}"


def require_tag(tag: str) -> None:
    """Refuse a tag that would not be the name of one folder."""
    fits = tag.isprintable() and "/" not in tag and not tag.startswith(".") and tag
    if not fits or tag == LATEST_CHECKPOINT or len(tag.encode()) > _LONGEST_TAG:
        raise UsageError(
            f"{tag!r} cannot be the tag of a checkpoint; it must be the name of a folder that does"
            f" not begin with a dot, and not {LATEST_CHECKPOINT!r}"
        )


def saving_path(folder: Path, tag: str) -> Path:
    """Where a checkpoint lies while it is written."""
    return folder / f"{_SAVING}{tag}"


def begin(folder: Path, tag: str) -> None:
    """Clear what dead writers left, and make room for a new checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in list(folder.iterdir()):
        if entry.name.startswith((_SAVING, _REMOVING)):
            shutil.rmtree(entry)
        elif entry.name.startswith(_REPLACED):
            home = folder / entry.name.removeprefix(_REPLACED)
            if home.exists():
                shutil.rmtree(entry)
            else:
                entry.rename(home)
    saving_path(folder, tag).mkdir()


def abandon(folder: Path, tag: str) -> None:
    """Remove a checkpoint that could not be written."""
    shutil.rmtree(saving_path(folder, tag), ignore_errors=True)


def publish(folder: Path, tag: str, *, as_latest: bool) -> None:
    """Make a checkpoint that is wholly written appear under its name."""
    home, replaced = folder / tag, folder / f"{_REPLACED}{tag}"
    sync_folder(saving_path(folder, tag))
    if home.exists():
        home.rename(replaced)
    saving_path(folder, tag).rename(home)
    sync_folder(folder)
    if as_latest:
        replace_file(folder / LATEST_CHECKPOINT, tag.encode())
        sync_folder(folder)
    if replaced.exists():
        shutil.rmtree(replaced)


def keep_newest(folder: Path, count: int, *, up_to_step: int) -> None:
    """Remove older checkpoints that have no name of their own, but for the newest ones.

    What a user named stays, and so does whatever is not a whole checkpoint of this engine.
    """
    steps = {}
    for entry in folder.iterdir():
        match = _OWN_TAG.fullmatch(entry.name)
        if match is None or int(match[1]) > up_to_step:
            continue
        with suppress(ProbeError):
            read_main(entry)
            steps[entry] = int(match[1])
    for entry in sorted(steps, key=steps.__getitem__, reverse=True)[count:]:
        doomed = folder / f"{_REMOVING}{entry.name}"
        entry.rename(doomed)
        shutil.rmtree(doomed)


def latest_tag(folder: Path) -> str | None:
    """The tag to load when none is named; None where nothing was saved yet."""
    try:
        return (folder / LATEST_CHECKPOINT).read_text(errors="replace").strip()
    except OSError:
        return None


def path_of(folder: Path, tag: str) -> Path:
    """Where the checkpoint lies."""
    require_tag(tag)
    home, replaced = folder / tag, folder / f"{_REPLACED}{tag}"
    if not home.exists() and replaced.exists():
        return replaced  # Its successor of the same name was not quite there yet.
    if not (home / CHECKPOINT_DOCUMENT).exists():
        raise ProbeError(f"{home} is no whole checkpoint: it has no {CHECKPOINT_DOCUMENT}")
    return home


def locate(path: Path) -> tuple[Path, str]:
    """Folder and tag that a path means: itself, or the latest of a folder or of a run."""
    if (path / CHECKPOINT_DOCUMENT).exists():
        path = path.resolve()
        return path.parent, path.name
    for folder in (path, path / CHECKPOINTS_DIR):
        tag = latest_tag(folder)
        if tag is not None:
            return folder, tag
    raise ProbeError(
        f"{path} holds no checkpoint: neither {CHECKPOINT_DOCUMENT} nor {LATEST_CHECKPOINT} is"
        " there"
    )


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
