"""The writer of one rank: rows into tables, signs of life into the heartbeat.

Its first duty is towards the training: whatever goes wrong here (a full disk, a directory that was
removed, a value that cannot be written) ends the recording with one warning and never the loop.
What was lost is noted in the heartbeat, which has its place on disk already, and in the events.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from probe.record.appending import LineFile
from probe.record.replacing import replace_file
from probe.schema.codec import decode_document, encode_document, encode_row, encode_rows
from probe.schema.documents import Header, Heartbeat, LastCollective
from probe.schema.layout import (
    HEADER,
    HEARTBEAT,
    HEARTBEAT_BYTES,
    LONGEST_LINE_BYTES,
    TABLES_DIR,
    rank_dir,
)
from probe.schema.rows import EventRow, Row
from probe.schema.tables import TABLE_BY_ROW
from probe.schema.vocabulary import EventKind, Phase, RankState

logger = logging.getLogger("zeroprobe")

_encode = msgspec.json.Encoder().encode
_LONGEST_TEXT = 120
"""Characters of a message or a block name in a heartbeat: two of them fit its fixed length."""


class RankWriter:
    """Writes what one rank has to say; never raises after it was made, nor while it is made.

    A rank that wrote here before was started again, unless the attempt is said.
    """

    def __init__(self, run_dir: Path, header: Header, *, attempt: int | None = None) -> None:
        self._dir = run_dir / rank_dir(header.rank)
        self._rank = header.rank
        self._files: dict[type[Row], LineFile] = {}
        self._heartbeat_fd: int | None = None
        self._last_step: int | None = None
        self._stop_reason = ""
        self._lost_rows = 0
        self._attempt = attempt or 0
        # A rank has a thread that beats beside the one that trains.
        self._turn = threading.RLock()
        try:
            if (run_dir / TABLES_DIR).exists():
                raise FileExistsError(f"{run_dir} is sealed; record into a new run")
            self._dir.mkdir(parents=True, exist_ok=True)
            if attempt is None:
                self._attempt = _attempts_before(self._dir / HEADER)
            self._write_header(header)
            # The first one whole, like the header: a rank that is killed here leaves no empty file.
            replace_file(self._dir / HEARTBEAT, _line_of(Heartbeat(time_ns=time.time_ns())))
            self._heartbeat_fd = os.open(self._dir / HEARTBEAT, os.O_RDWR | os.O_CLOEXEC)
        except Exception as error:
            self._stop(error)

    @property
    def folder(self) -> Path:
        """Where this rank's files lie."""
        return self._dir

    @property
    def stop_reason(self) -> str:
        """Why the recording ended early; empty while it goes on."""
        return self._stop_reason

    @property
    def lost_rows(self) -> int:
        """Rows that came after the recording had ended."""
        return self._lost_rows

    def describe(self, header: Header) -> None:
        """Replace the header, now that more is known of this rank."""
        if self._stop_reason:
            return
        try:
            self._write_header(header)
        except Exception as error:
            self._stop(error)

    def write(self, row: Row) -> None:
        """Append one row to its table."""
        self.write_all((row,))

    def write_all(self, rows: Sequence[Row]) -> None:
        """Append rows of one table at once."""
        with self._turn:
            self._write(rows)

    def write_tables(self, tables: Sequence[Sequence[Row]]) -> None:
        """Append to several tables, the rows of one in each; a table without rows is left out."""
        with self._turn:
            for rows in tables:
                if rows:
                    self._write(rows)

    def beat(
        self,
        *,
        step: int | None = None,
        phase: Phase | None = None,
        step_wall_ns: int | None = None,
        collective: LastCollective | None = None,
    ) -> None:
        """Leave a sign of life: where this rank stands now."""
        with self._turn:
            self._last_step = step
            self._beat(
                Heartbeat(
                    time_ns=time.time_ns(),
                    step=step,
                    phase=phase,
                    step_wall_ns=step_wall_ns,
                    collective=collective,
                    message=self._stop_reason[:_LONGEST_TEXT],
                )
            )

    def close(self, state: RankState = RankState.CLOSED) -> None:
        """End the recording; the heartbeat says that this was on purpose."""
        if self._heartbeat_fd is None:
            return
        if self._stop_reason:
            self._note_loss()
        while self._files:
            _, file = self._files.popitem()
            try:
                file.close()
            except OSError as error:
                # Network file systems speak of a full disk only here.
                self._stop(error)
        self._beat(
            Heartbeat(
                state=state,
                time_ns=time.time_ns(),
                step=self._last_step,
                message=self._loss()[:_LONGEST_TEXT],
            )
        )
        with suppress(OSError):
            os.close(self._heartbeat_fd)
        self._heartbeat_fd = None
        self._stop_reason = self._stop_reason or "closed"

    def _write_header(self, header: Header) -> None:
        told = msgspec.structs.replace(header, attempt=self._attempt)
        replace_file(self._dir / HEADER, encode_document(told))

    def _write(self, rows: Sequence[Row]) -> None:
        if self._stop_reason:
            self._lost_rows += len(rows)
            return
        try:
            if self._attempt:
                rows = [msgspec.structs.replace(row, attempt=self._attempt) for row in rows]
            lines = encode_rows(rows)
            if len(lines) > LONGEST_LINE_BYTES:
                longest_bytes = max(map(len, lines.splitlines(keepends=True)))
                if longest_bytes > LONGEST_LINE_BYTES:
                    raise ValueError(
                        f"a row of {longest_bytes} bytes; {LONGEST_LINE_BYTES} are the most"
                    )
            self._file(type(rows[0])).append(lines)
        except Exception as error:
            self._lost_rows += len(rows)
            self._stop(error)

    def _file(self, row: type[Row]) -> LineFile:
        file = self._files.get(row)
        if file is None:
            file = self._files[row] = LineFile(self._dir / TABLE_BY_ROW[row].file_name)
        return file

    def _beat(self, heartbeat: Heartbeat) -> None:
        if self._heartbeat_fd is None:
            return
        try:
            os.pwrite(self._heartbeat_fd, _line_of(heartbeat), 0)
            if os.fstat(self._heartbeat_fd).st_nlink == 0:
                raise FileNotFoundError(f"{self._dir} was removed")
            for row, file in self._files.items():
                if file.is_removed():
                    name = TABLE_BY_ROW[row].file_name
                    raise FileNotFoundError(f"{self._dir / name} was removed, or the run sealed")
        except Exception as error:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        """End the recording, once, and say so."""
        if self._stop_reason:
            return
        self._stop_reason = f"{type(error).__name__}: {error}"
        # A log whose own file is closed or full raises into whoever speaks to it.
        with suppress(Exception):
            logger.warning(
                "recording of rank %d stopped after step %s (%s); the training goes on without it",
                self._rank,
                self._last_step,
                self._stop_reason,
            )
        self._note_loss()

    def _note_loss(self) -> None:
        """Leave word of what is missing in the events, where the disk still takes it."""
        if self._heartbeat_fd is None:
            return  # The folder never became ours: it could not be made, or its run is sealed.
        note = EventRow(
            attempt=self._attempt,
            time_ns=time.monotonic_ns(),
            kind=EventKind.RECORDING_STOPPED,
            step=self._last_step,
            message=self._loss(),
        )
        with suppress(Exception):
            self._file(EventRow).append(encode_row(note))

    def _loss(self) -> str:
        if not self._stop_reason:
            return ""
        return f"{self._lost_rows} rows lost; {self._stop_reason}"


def _attempts_before(header: Path) -> int:
    """How often this rank was started before: its folder tells, whatever started it again."""
    try:
        content = header.read_bytes()
    except FileNotFoundError:
        return 0
    return decode_document(content, Header)[0].attempt + 1


def _line_of(heartbeat: Heartbeat) -> bytes:
    """A heartbeat in its fixed length; what is too long to fit is left out."""
    line = _encode(heartbeat)
    if len(line) >= HEARTBEAT_BYTES:
        line = _encode(msgspec.structs.replace(heartbeat, collective=None, message=""))
    return line.ljust(HEARTBEAT_BYTES - 1) + b"\n"
