"""One save: every rank writes its part, then the first makes the whole of it appear.

    at once         begin  |  write, all together agree  |  commit, all together agree
    asynchronous    begin  |  snapshot to the host       |  a thread: write, wait for the others'
                                                            documents in the folder, commit

The ranks' threads say nothing to each other: a collective there would run beside those of the
training. The folder, which all ranks share anyway, says who is done.
"""

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from torch import Tensor

from engine.checkpoint import folder as folders
from engine.checkpoint.documents import (
    FileFacts,
    MainDocument,
    data_name,
    document_name,
    encode_main,
)
from engine.checkpoint.pieces import Holdings, Piece
from engine.checkpoint.writing import write_rank
from probe.errors import ProbeError
from probe.record.replacing import replace_file
from probe.schema.layout import CHECKPOINT_DOCUMENT

PEER_SILENCE_S = 120.0
"""A peer whose files have not grown for so long will not finish its part."""
_LOOK_EVERY_S = 0.02
_FAILED_SUFFIX = ".failed"


class SaveError(ProbeError):
    """A checkpoint could not be saved; those before it are as they were."""


@dataclass(frozen=True, kw_only=True)
class Save:
    """What is to be saved and where to, on one rank."""

    folder: Path
    tag: str
    rank: int
    world: int
    main: MainDocument
    """Without the facts of files, which only exist at the end."""
    own: dict[str, Any]
    as_latest: bool
    keep_last: int
    """How many checkpoints without a name of their own stay; 0: all."""

    @property
    def path(self) -> Path:
        """Where it lies while it is written."""
        return folders.saving_path(self.folder, self.tag)

    def write(self, holdings: "Holdings | Snapshot") -> int:
        """This rank's part; the bytes of it."""
        return write_rank(
            self.path,
            rank=self.rank,
            pieces=holdings.pieces(),
            scalars=lambda: holdings.scalars,
            own=self.own,
        )

    def commit(self) -> None:
        """All parts are there: make them a checkpoint."""
        files: dict[str, FileFacts] = {}
        for rank in range(self.world):
            document, data = document_name(rank), data_name(rank)
            try:
                content = (self.path / document).read_bytes()
                size_bytes = (self.path / data).stat().st_size
            except FileNotFoundError as error:
                raise SaveError(
                    f"rank 0 does not see {error.filename}; checkpoints need a folder that all"
                    " ranks share"
                ) from error
            files[document] = FileFacts(size_bytes=len(content), crc32=zlib.crc32(content))
            files[data] = FileFacts(size_bytes=size_bytes)
        main = msgspec.structs.replace(self.main, files=files)
        replace_file(self.path / CHECKPOINT_DOCUMENT, encode_main(main))
        folders.publish(self.folder, self.tag, as_latest=self.as_latest)
        if self.keep_last:
            folders.keep_newest(
                self.folder, self.keep_last, up_to_step=self.main.counters.global_steps
            )

    def await_parts(self) -> None:
        """Wait until every rank's document is there."""
        seen_bytes, changed_at = -1, time.monotonic()
        while True:
            names = {entry.name: entry for entry in self.path.iterdir()}
            for rank in range(self.world):
                failed = names.get(document_name(rank) + _FAILED_SUFFIX)
                if failed is not None:
                    raise SaveError(failed.read_text())
            if all(document_name(rank) in names for rank in range(self.world)):
                return
            held_bytes = sum(
                entry.stat().st_size for name, entry in names.items() if name.endswith(".data")
            )
            if held_bytes != seen_bytes:
                seen_bytes, changed_at = held_bytes, time.monotonic()
            elif time.monotonic() - changed_at > PEER_SILENCE_S:
                late = [r for r in range(self.world) if document_name(r) not in names]
                raise SaveError(f"rank {late[0]} has written nothing for {PEER_SILENCE_S:.0f} s")
            time.sleep(_LOOK_EVERY_S)

    def tell_failure(self, error: BaseException) -> None:
        """Leave word for rank 0, in the room that this rank's own data took."""
        with suppress(OSError):
            (self.path / data_name(self.rank)).unlink(missing_ok=True)
            marker = self.path / (document_name(self.rank) + _FAILED_SUFFIX)
            replace_file(marker, f"rank {self.rank}: {reason(error)}".encode())


class Snapshot:
    """Copies on the host of all that a rank saves."""

    def __init__(self, holdings: Holdings) -> None:
        self._pieces = [
            replace(piece, values=piece.values.detach().to("cpu", copy=True))
            for piece in holdings.pieces()
        ]
        self.scalars: dict[str, dict[str, Tensor]] = {
            parameter: {name: value.cpu().clone() for name, value in values.items()}
            for parameter, values in holdings.scalars.items()
        }

    def pieces(self) -> Iterator[Piece]:
        """In the order that they were read; each is let go as it was written."""
        self._pieces.reverse()
        while self._pieces:
            yield self._pieces.pop()


class Background:
    """A save that goes on while the training does. The process does not end before it."""

    def __init__(
        self, save: Save, snapshot: Snapshot, ended: Callable[["Background"], None]
    ) -> None:
        self._save = save
        self._snapshot = snapshot
        self._tell_end = ended
        self.size_bytes = 0
        self.ended_ns = 0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="checkpoint", daemon=False)

    def _run(self) -> None:
        try:
            self.size_bytes = self._save.write(self._snapshot)
            if self._save.rank == 0:
                self._save.await_parts()
                self._save.commit()
        except BaseException as error:
            self.error = error
            self._save.tell_failure(error)
            if self._save.rank == 0:
                folders.abandon(self._save.folder, self._save.tag)
        self.ended_ns = time.monotonic_ns()
        self._tell_end(self)


def reason(error: BaseException) -> str:
    """Why, in a clause."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error)
