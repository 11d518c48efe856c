"""Opening files of a run, and only of that run.

A run directory comes from strangers. Every step of a path is opened by descriptor and without
following links, so nothing outside the directory can be reached; only regular files are read, so
no pipe can hold us up and no device can be opened.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from probe.read.problem import Problem
from probe.schema.layout import rank_of
from probe.schema.vocabulary import Severity

_LEADING = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FINAL = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RefusedFileError(Exception):
    """A file of the run that is there and will not be opened; says why in `problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


@contextmanager
def open_inside(root: Path, *parts: str) -> Iterator[BinaryIO]:
    """A regular file below the run; FileNotFoundError if absent, RefusedFileError if not ours."""
    file = "/".join(parts)
    assert all(part not in ("", ".", "..") and "/" not in part for part in parts), file
    descriptors = [os.open(root, _LEADING)]
    try:
        try:
            for part in parts[:-1]:
                descriptors.append(os.open(part, _LEADING | os.O_NOFOLLOW, dir_fd=descriptors[-1]))
            descriptors.append(os.open(parts[-1], _FINAL, dir_fd=descriptors[-1]))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RefusedFileError(_unopened(file, error)) from error
        if not stat.S_ISREG(os.fstat(descriptors[-1]).st_mode):
            raise RefusedFileError(
                Problem(
                    severity=Severity.ERROR,
                    file=file,
                    what="is not a regular file",
                    hint="A run holds plain files only; remove it or restore it from a copy.",
                )
            )
        with os.fdopen(descriptors.pop(), "rb", buffering=0) as opened:
            yield opened
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def read_small(root: Path, *parts: str, limit_bytes: int) -> bytes:
    """The whole of a small file, or its first `limit_bytes` and one byte more."""
    with open_inside(root, *parts) as file:
        return _read_up_to(file, limit_bytes + 1)


def rank_folders(root: Path) -> tuple[tuple[int, ...], list[Problem]]:
    """The ranks that have a folder of their own, in order."""
    ranks: list[int] = []
    problems: list[Problem] = []
    with os.scandir(root) as entries:
        for entry in entries:
            rank = rank_of(entry.name)
            if rank is None:
                continue
            if entry.is_dir(follow_symlinks=False):
                ranks.append(rank)
            else:
                problems.append(
                    Problem(
                        severity=Severity.ERROR,
                        file=entry.name,
                        what="is not a folder" + (" but a link" if entry.is_symlink() else ""),
                        hint="Copy the rank's folder itself into the run; links are not followed.",
                    )
                )
    return tuple(sorted(ranks)), problems


def listed_ranks(root: Path) -> tuple[tuple[int, ...], list[Problem]]:
    """The ranks of a run that was opened before, and a problem if it cannot be listed any more."""
    try:
        return rank_folders(root)[0], []
    except OSError as error:
        return (), [
            Problem(
                severity=Severity.ERROR,
                file=".",
                what=f"cannot be listed any more ({error.strerror})",
                hint="The run was moved or removed while it was read; open it anew.",
            )
        ]


def file_names(root: Path, *parts: str) -> list[str]:
    """The names in a folder of the run, sorted; none if it is absent or no folder of its own."""
    descriptor = os.open(root, _LEADING)
    try:
        for part in parts:
            below = os.open(part, _LEADING | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        return sorted(os.listdir(descriptor))  # noqa: PTH208 - by descriptor, so that no link is followed
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _read_up_to(file: BinaryIO, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = limit_bytes
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _unopened(file: str, error: OSError) -> Problem:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        what = "is a link, or its folder is none"
        hint = "Copy the file itself into a folder of the run; links are not followed."
    else:
        what = f"cannot be opened ({error.strerror})"
        hint = "Check the permissions of the run directory."
    return Problem(severity=Severity.ERROR, file=file, what=what, hint=hint)
