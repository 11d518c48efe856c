"""A trace document as a stream: its head, batches of events, its tail.

The text is cut before a separator between two events, and decoding says whether the guess was
right: what decodes as a list was cut between elements. The separator is learnt from the file. Only
where a guess fails is the text scanned with care, and only there is damage stepped over.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from probe.read.trace_bytes import TornStreamError
from probe.read.trace_event import MALFORMED, Event, decode_doubtful, decode_events
from probe.read.trace_facts import Outside, add_outside, decode_outside
from probe.read.trace_scan import scan_elements

LONGEST_EVENT_BYTES = 1 << 20
LONGEST_HEAD_BYTES = 64 << 20
"""The group lists of large jobs stand there: kilobytes a group."""
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_LONGEST_KEY_BYTES = 64
_MOST_OPENINGS = 16
_BARE_ARRAY = re.compile(rb"\s*\[")
_SPACE = b" \t\r\n"
SEPARATOR = b"},\n  {"
"""Until the file has shown its own."""


@dataclass(kw_only=True)
class EventStream:
    """Yields the events of a document and collects what else it says."""

    pieces: Iterator[bytes]
    outside: Outside = field(default_factory=Outside)
    """The document's other keys; those behind the events are known at the end only."""
    lost_events: int = 0
    """Elements that were damaged or no events."""
    torn: TornStreamError | None = None
    """Why the bytes ended early."""
    found_array: bool = False
    closed: bool = False
    """The array of events had its end."""
    _bare: bool = False
    """The array is the whole document."""
    _text: bytes = b""
    _separator: bytes = SEPARATOR
    _resumptions_left: int = 2000
    """Each costs a scan; a file made of damage must not cost hours."""

    def batches(self) -> Iterator[list[Event]]:
        """The events in their order, some thousands at a time."""
        if not self._open_array():
            return
        while True:
            yield from self._whole_events(at_end=False)
            if self.closed:
                break
            piece = self._next_piece()
            if piece is None:
                yield from self._whole_events(at_end=True)
                break
            self._text += piece
        if self.closed:
            self._read_tail()

    def _next_piece(self) -> bytes | None:
        try:
            return next(self.pieces, None)
        except TornStreamError as torn:
            self.torn = torn
            return None

    def _open_array(self) -> bool:
        """Read up to the first event."""
        text = bytearray()
        searched = 0
        openings = 0
        while (piece := self._next_piece()) is not None:
            text += piece
            if not searched and (bare := _BARE_ARRAY.match(text)):
                self._bare = True
                return self._begin_at(bytes(text[bare.end() :]), head=b"{}")
            spans = [match.span() for match in _ARRAY.finditer(text, searched)]
            # Others of that name lie deeper; a head full of them was made to cost time.
            for key_at, array_at in spans[: _MOST_OPENINGS - openings]:
                openings += 1
                head = bytes(text[:key_at]) + b'"traceEvents":[]}'
                if self._begin_at(bytes(text[array_at:]), head=head):
                    return True
            searched = max(0, len(text) - _LONGEST_KEY_BYTES)
            if len(text) > LONGEST_HEAD_BYTES:
                break
        return False

    def _begin_at(self, events: bytes, *, head: bytes) -> bool:
        """Take what lies before the array as JSON; where that fails, it was no array of ours."""
        try:
            self.outside = decode_outside(head)
        except MALFORMED:
            return False
        self._text = events
        self.found_array = True
        return True

    def _whole_events(self, *, at_end: bool) -> Iterator[list[Event]]:
        if not at_end and (batch := self._guess()):
            yield batch
            return
        while True:
            batch, again = self._scan(at_end=at_end)
            if batch:
                yield batch
            if not again:
                break

    def _guess(self) -> list[Event]:
        """Events up to the last separator, if that is what it was."""
        cut = self._text.rfind(self._separator)
        if cut < 0:
            return []
        try:
            batch = decode_events(b"[%b]" % self._text[: cut + 1].lstrip(b"," + _SPACE))
        except MALFORMED:
            return []
        self._text = self._text[cut + len(self._separator) - 1 :]
        return batch

    def _scan(self, *, at_end: bool) -> tuple[list[Event], bool]:
        """Events found with care, and whether damage was stepped over so that more can follow."""
        scan = scan_elements(self._text, 0)
        batch: list[Event] = []
        for begin, end in scan.spans:
            element = self._text[begin:end]
            try:
                events = _events_in(element)
                self.lost_events += not events
                batch += events
            except MALFORMED:
                self.lost_events += 1
                # Quotes may be out of step from here on: find the next event by its looks.
                if self._resume_behind(begin):
                    return batch, True
        self._learn_separator(scan.spans)
        if scan.closed is not None:
            self._text = self._text[scan.closed :]
            self.closed = True
            return batch, False
        self._text = self._text[scan.rest :].lstrip(b"," + _SPACE)
        if not self._text:
            return batch, False
        if not (at_end or scan.hopeless or len(self._text) > LONGEST_EVENT_BYTES):
            return batch, False
        if self._resume_behind(0):
            self.lost_events += 1
            return batch, True
        if at_end:
            # Cut within an event, which is no damage of its own.
            self._text = b""
            return batch, False
        self.lost_events += 1
        # The last bytes may be the first half of a separator.
        self._text = self._text[-len(self._separator) :]
        return batch, False

    def _resume_behind(self, begin: int) -> bool:
        """Go on with the event behind the next separator, if one is in sight."""
        found = self._text.find(self._separator, begin + 1)
        if found < 0 or self._resumptions_left == 0:
            return False
        self._resumptions_left -= 1
        self._text = self._text[found + len(self._separator) - 1 :]
        return True

    def _learn_separator(self, spans: list[tuple[int, int]]) -> None:
        """Between two events as this file writes them, the brackets on both sides included."""
        if len(spans) > 1:
            gap = self._text[spans[-2][1] : spans[-1][0]]
            if gap.strip(_SPACE) == b",":
                self._separator = b"}" + gap + b"{"

    def _read_tail(self) -> None:
        """What stands behind the events."""
        text = bytearray(self._text)
        self._text = b""
        while len(text) < LONGEST_HEAD_BYTES and (piece := self._next_piece()) is not None:
            text += piece
        inner = text.strip(_SPACE).removeprefix(b",")
        if self._bare or inner == b"}":
            return
        try:
            self.outside = add_outside(self.outside, decode_outside(b"{" + inner))
        except MALFORMED:
            self.torn = self.torn or TornStreamError(
                "has no readable end behind its events",
                "The events are read; what the profiler noted behind them is not.",
            )


def _events_in(element: bytes) -> list[Event]:
    """The event that an element is, or none; raises MALFORMED if it is no JSON."""
    try:
        return decode_events(b"[%b]" % element)
    except msgspec.ValidationError:
        event = decode_doubtful(element)
        return [event] if event is not None else []
