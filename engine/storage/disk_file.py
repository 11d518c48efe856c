"""One preallocated file of one rank: records at aligned offsets, each with a header of its own.

    | file header, one page | record | record | ...
    record: one page that says whose it is, how long and its checksum, then the payload

The file is locked while its owner lives. What a dead run left behind is taken over; a file of a
living run or of somebody else is refused and left alone.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import struct
from pathlib import Path

import torch
from torch import Tensor

from engine.storage.buffers import PAGE_BYTES, Buffer, whole_pages
from engine.storage.failures import DamagedRecordError, StorageError, explain

_FILE_MAGIC = b"ZPOFF-1\0"
_RECORD = struct.Struct("<8s16sQQQq")
_RECORD_MAGIC = b"ZPREC-1\0"
_WORDS_A_PAGE = PAGE_BYTES // 8


class DiskFile:
    """The file and who lies where in it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self._token = secrets.token_bytes(16)
        self._end = PAGE_BYTES
        self._free: list[tuple[int, int]] = []
        if not folder.is_dir():
            raise StorageError(
                f"{folder}: no such folder, so nothing can be offloaded to it. Make it, or name"
                " another as nvme_path (--offload-path)."
            )
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise explain(error, self.path, "opening it for offload") from error
        try:
            self._claim()
        except BaseException:
            os.close(self._descriptor)
            raise
        self.direct = self._go_direct()

    def room(self, size_bytes: int) -> int:
        """The offset of that many bytes that are really there; whole pages."""
        for at, (offset, free_bytes) in enumerate(self._free):
            if free_bytes >= size_bytes:
                self._free[at : at + 1] = (
                    [(offset + size_bytes, free_bytes - size_bytes)]
                    if free_bytes > size_bytes
                    else []
                )
                return offset
        offset = self._end
        try:
            os.posix_fallocate(self._descriptor, offset, size_bytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                doing = "making room for offloaded states"
                raise explain(error, self.path, doing, size_bytes=size_bytes) from error
        self._end += size_bytes
        return offset

    def give_up(self, offset: int, size_bytes: int) -> None:
        """Others may lie there from now on."""
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self._free, (offset, size_bytes)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = merged[-1][0], merged[-1][1] + length
            else:
                merged.append((start, length))
        if sum(merged[-1]) == self._end:
            self._end = merged.pop()[0]
        self._free = merged

    def write(
        self, buffer: Buffer, payload_bytes: int, *, offset: int, number: int, version: int
    ) -> None:
        """Write a record whose payload begins on the buffer's second page."""
        length = PAGE_BYTES + whole_pages(payload_bytes)
        _RECORD.pack_into(
            buffer.memory,
            0,
            _RECORD_MAGIC,
            self._token,
            number,
            version,
            payload_bytes,
            checksum(buffer.tensor[PAGE_BYTES:length]),
        )
        done = 0
        with memoryview(buffer.memory) as view:
            while done < length:
                try:
                    done += os.pwrite(self._descriptor, view[done:length], offset + done)
                except OSError as error:
                    doing = "writing offloaded states"
                    raise explain(error, self.path, doing, size_bytes=length) from error

    def read(
        self, buffer: Buffer, payload_bytes: int, *, offset: int, number: int, version: int
    ) -> None:
        """Read a record, and make sure that it is the one that was written last."""
        length = PAGE_BYTES + whole_pages(payload_bytes)
        done = 0
        with memoryview(buffer.memory) as view:
            while done < length:
                try:
                    got = os.preadv(self._descriptor, [view[done:length]], offset + done)
                except OSError as error:
                    raise explain(error, self.path, "reading offloaded states") from error
                if not got:
                    raise self._damaged(offset, "the file ends within it")
                done += got
        magic, token, theirs, written, claimed_bytes, total = _RECORD.unpack_from(buffer.memory)
        if magic != _RECORD_MAGIC:
            raise self._damaged(offset, "its header is not one of ours")
        if token != self._token:
            raise self._damaged(offset, "it was written by another run")
        if (theirs, written, claimed_bytes) != (number, version, payload_bytes):
            raise self._damaged(
                offset,
                f"its header tells of record {theirs}, write {written}, {claimed_bytes} bytes;"
                f" expected were record {number}, write {version}, {payload_bytes} bytes",
            )
        if total != checksum(buffer.tensor[PAGE_BYTES:length]):
            raise self._damaged(offset, "its checksum does not match its content")

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._descriptor)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"{self.path}: another run that is alive offloads to this file. Wait for it, or"
                " name another folder as nvme_path (--offload-path)."
            ) from None
        head = os.pread(self._descriptor, len(_FILE_MAGIC), 0)
        if head and head != _FILE_MAGIC:
            raise StorageError(
                f"{self.path}: this file is none of an offloaded run, so it is left as it is. Move"
                " it, or name another folder as nvme_path (--offload-path)."
            )
        # What is left of a run that ended without removing it: nobody can use it any more.
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, _FILE_MAGIC.ljust(PAGE_BYTES, b"\0"), 0)
        except OSError as error:
            raise explain(
                error, self.path, "making the file for offload", size_bytes=PAGE_BYTES
            ) from error

    def _go_direct(self) -> bool:
        """Past the page cache, where that can be: what is read once a step gains nothing by it."""
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        except (OSError, AttributeError):
            return False
        return True

    def _damaged(self, offset: int, what: str) -> DamagedRecordError:
        return DamagedRecordError(
            f"{self.path}: the record at byte {offset} cannot be used: {what}. The states that"
            " rested there are lost; start again from the last checkpoint, and have a look at the"
            " disk."
        )


def checksum(pages: Tensor) -> int:
    """Of whole pages: their words added up, each page weighted by its place."""
    sums = pages.view(torch.int64).view(-1, _WORDS_A_PAGE).sum(1)
    return int((sums * (2 * torch.arange(len(sums)) + 1)).sum())
