"""Batches of events become columns: numbers as arrays, texts as codes into what was seen before.

Kept are events that take time. Python frames are left out, but for modules: they double a trace and
name what the modules name; so are flow arrows, which correlation says again, and counters.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from probe.read.trace import CODE_OF, NONE, Codes, CollectiveFacts, Events, Lane, Signature
from probe.read.trace_event import MALFORMED, NO_RAW, Arguments, Event
from probe.schema.vocabulary import TraceCategory

LATEST_US = 4.5e15
"""Larger times, the year 2112, are no times; their ns with a base would not fit 64 bits."""
LONGEST_US = 86_400e6
"""A day. Devices sometimes report a duration that wrapped around."""
LONGEST_NAME = 4096
_LONGEST_SIGNATURE = 16384
_TEXT_OVERHEAD_BYTES = 120
_MODULE_PREFIX = "nn.Module: "
_PYTHON = 254
_LEFT_OUT = 255
_BY_CATEGORY = {
    "cpu_op": TraceCategory.OPERATOR,
    "operator": TraceCategory.OPERATOR,
    "user_annotation": TraceCategory.ANNOTATION,
    "kernel": TraceCategory.KERNEL,
    "concurrent_kernel": TraceCategory.KERNEL,
    "gpu_memcpy": TraceCategory.COPY,
    "memcpy": TraceCategory.COPY,
    "gpu_memset": TraceCategory.FILL,
    "memset": TraceCategory.FILL,
    "gpu_user_annotation": TraceCategory.DEVICE_ANNOTATION,
    "cuda_runtime": TraceCategory.LAUNCH,
    "cuda_driver": TraceCategory.LAUNCH,
    "runtime": TraceCategory.LAUNCH,
    "xpu_runtime": TraceCategory.LAUNCH,
    "xpu_driver": TraceCategory.LAUNCH,
    "mtia_runtime": TraceCategory.LAUNCH,
    "privateuse1_runtime": TraceCategory.LAUNCH,
    "privateuse1_driver": TraceCategory.LAUNCH,
    "cuda_sync": TraceCategory.SYNC,
    "overhead": TraceCategory.OVERHEAD,
}
_CODES = {word: CODE_OF[category] for word, category in _BY_CATEGORY.items()}
# The span of the whole trace is no event in it.
_CODES |= {"python_function": _PYTHON, "trace": _LEFT_OUT}
_CODES |= {word.capitalize(): code for word, code in _CODES.items()}
_OTHER = CODE_OF[TraceCategory.OTHER]
_MODULE = CODE_OF[TraceCategory.MODULE]
ROW_BYTES = 8 + 8 + 1 + 4 + 4 + 8 + 8 + 8 + 4 + 4

_phase = attrgetter("ph")
_category = attrgetter("cat")
_name = attrgetter("name")
_arguments = attrgetter("args")


@dataclass(kw_only=True)
class _Interned:
    """Keys seen so far, each with its number."""

    numbers: dict[Any, int] = field(default_factory=dict)
    held_bytes: int = 0

    def codes(self, keys: Sequence[Hashable], shorten: Callable[[Any], Any]) -> Codes:
        """The number of each key; new ones are shortened and get the next."""
        found = list(map(self.numbers.get, keys))
        try:
            return np.array(found, np.int32)
        except TypeError:  # a None, for a key that is new
            known = self.numbers
            for position, code in enumerate(found):
                if code is None:
                    key = keys[position]
                    found[position] = known[key] if key in known else self._code(shorten(key))
            return np.array(found, np.int32)

    def _code(self, key: Any) -> int:
        code = self.numbers.get(key)
        if code is None:
            code = self.numbers[key] = len(self.numbers)
            parts = key if isinstance(key, tuple) else (key,)
            texts = sum(len(part) for part in parts if isinstance(part, str | bytes))
            self.held_bytes += _TEXT_OVERHEAD_BYTES + texts
        return code


@dataclass(kw_only=True)
class TraceColumns:
    """Collects the events of one trace."""

    left_out: dict[str, int] = field(default_factory=dict)
    impossible_times: int = 0
    """Events left out because they begin or last longer than can be."""
    rows: int = 0
    _parts: list[dict[str, npt.NDArray[Any]]] = field(default_factory=list)
    _names: _Interned = field(default_factory=_Interned)
    _lanes: _Interned = field(default_factory=_Interned)
    _signatures: _Interned = field(default_factory=_Interned)
    _collectives: _Interned = field(default_factory=_Interned)

    @property
    def held_bytes(self) -> int:
        """About what the columns need once they are joined; joining needs one column twice."""
        interned = (self._names, self._lanes, self._signatures, self._collectives)
        return self.rows * ROW_BYTES + sum(item.held_bytes for item in interned)

    def add(self, batch: list[Event]) -> None:
        """Take the events of a batch that are kept."""
        events = [event for event in batch if event.ph == "X"]
        self._leave_out("untimed", len(batch) - len(events))
        codes = [_CODES.get(word, _OTHER) for word in map(_category, events)]
        if codes and max(codes) >= _PYTHON:
            events, codes = self._without_frames(events, codes)
        if not events:
            return
        starts_us = np.array([event.ts for event in events])
        lengths_us = np.array([event.dur for event in events])
        possible = (np.abs(starts_us) < LATEST_US) & (lengths_us >= 0) & (lengths_us < LONGEST_US)
        arguments = list(map(_arguments, events))
        part: dict[str, npt.NDArray[Any]] = {
            "start_ns": _nanoseconds(np.where(possible, starts_us, 0)),
            "duration_ns": _nanoseconds(np.where(possible, lengths_us, 0)),
            "category": np.array(codes, np.uint8),
            "name": self._names.codes(list(map(_name, events)), _short_name),
            "lane": self._lanes.codes([(e.pid, e.tid) for e in events], _short_lane),
            "external_id": _int64(arguments, "external"),
            "correlation": _int64(arguments, "correlation"),
            "size_bytes": _int64(arguments, "size"),
            "signature": self._signature_codes(arguments),
            "collective": self._collective_codes(arguments),
        }
        if not possible.all():
            self.impossible_times += int(len(events) - possible.sum())
            part = {name: array[possible] for name, array in part.items()}
        self.rows += len(part["start_ns"])
        self._parts.append(part)

    def events(self, *, base_ns: int) -> Events:
        """All columns in one piece, with the base of the clock added; ends the collecting."""
        if not self._parts:
            self._parts.append(dict(_EMPTY))
        joined: dict[str, npt.NDArray[Any]] = {}
        for name in list(self._parts[0]):
            # Column by column, each part let go at once: only one column is held twice.
            joined[name] = np.concatenate([part.pop(name) for part in self._parts])
        joined["start_ns"] += base_ns
        self._parts = []
        return Events(**joined)

    def names(self) -> tuple[str, ...]:
        """Names by code."""
        return tuple(self._names.numbers)

    def lanes(self) -> tuple[Lane, ...]:
        """Lanes by code."""
        return tuple(Lane(process=str(pid), thread=str(tid)) for pid, tid in self._lanes.numbers)

    def signatures(self) -> tuple[Signature, ...]:
        """Signatures by code."""
        return tuple(
            Signature(shapes=_compact(shapes), dtypes=_compact(dtypes))
            for shapes, dtypes in self._signatures.numbers
        )

    def collectives(self) -> tuple[CollectiveFacts, ...]:
        """Facts of collectives by code."""
        return tuple(
            CollectiveFacts(
                name=name,
                group=str(group),
                group_size=size if size > 0 else None,
                dtype=dtype,
                in_elements=taken if taken >= 0 else None,
                out_elements=given if given >= 0 else None,
            )
            for name, group, size, dtype, taken, given in self._collectives.numbers
        )

    def _without_frames(
        self, events: list[Event], codes: list[int]
    ) -> tuple[list[Event], list[int]]:
        """Without what is left out by category; Python frames of modules stay."""
        kept_events, kept_codes = [], []
        for event, code in zip(events, codes, strict=True):
            if code == _PYTHON and event.name.startswith(_MODULE_PREFIX):
                code = _MODULE
            if code < _PYTHON:
                kept_events.append(event)
                kept_codes.append(code)
        self._leave_out("python_function", codes.count(_PYTHON) - kept_codes.count(_MODULE))
        return kept_events, kept_codes

    def _leave_out(self, word: str, count: int) -> None:
        if count:
            self.left_out[word] = self.left_out.get(word, 0) + count

    def _signature_codes(self, arguments: list[Arguments]) -> Codes:
        codes = np.full(len(arguments), NONE, np.int32)
        places = [place for place, item in enumerate(arguments) if item.shapes is not NO_RAW]
        keys = [(bytes(arguments[at].shapes), bytes(arguments[at].dtypes)) for at in places]
        codes[places] = self._signatures.codes(keys, _short_signature)
        return codes

    def _collective_codes(self, arguments: list[Arguments]) -> Codes:
        codes = np.full(len(arguments), NONE, np.int32)
        places = [place for place, item in enumerate(arguments) if item.collective]
        keys = [_collective_key(arguments[place]) for place in places]
        codes[places] = self._collectives.codes(keys, _as_it_is)
        return codes


_NO_SIGNATURE = (b"", b"")
_EMPTY: dict[str, npt.NDArray[Any]] = {
    **{name: np.empty(0, np.int64) for name in ("start_ns", "duration_ns")},
    "category": np.empty(0, np.uint8),
    **{name: np.empty(0, np.int32) for name in ("name", "lane")},
    **{name: np.empty(0, np.int64) for name in ("external_id", "correlation", "size_bytes")},
    **{name: np.empty(0, np.int32) for name in ("signature", "collective")},
}


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Exact for whole microseconds of any size: their ns would not fit a double."""
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def _int64(arguments: list[Arguments], name: str) -> npt.NDArray[np.int64]:
    """One argument of all events; numbers that do not fit are none."""
    values: Iterable[int] = map(attrgetter(name), arguments)
    try:
        return np.fromiter(values, np.int64, len(arguments))
    except OverflowError:
        fitting = [_fitting(getattr(item, name)) for item in arguments]
        return np.array(fitting, np.int64)


def _fitting(value: int) -> int:
    return value if 0 <= value < 2**63 else NONE


def _collective_key(item: Arguments) -> tuple[Any, ...]:
    return (
        _short_name(item.collective),
        _short_name(item.group),
        _fitting(item.group_size),
        _short_name(item.dtype),
        _fitting(item.in_elements),
        _fitting(item.out_elements),
    )


def _short_name(name: Any) -> Any:
    return name[:LONGEST_NAME] if isinstance(name, str) else name


def _short_lane(lane: tuple[Any, Any]) -> tuple[Any, Any]:
    return _short_name(lane[0]), _short_name(lane[1])


def _short_signature(signature: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A cut JSON would be none, so long ones are left out whole."""
    too_long = len(signature[0]) + len(signature[1]) > _LONGEST_SIGNATURE
    return _NO_SIGNATURE if too_long else signature


def _compact(text: bytes) -> str:
    """The same JSON without the layout of the file it stood in."""
    try:
        return msgspec.json.format(text, indent=-1).decode()
    except MALFORMED:
        return ""


def _as_it_is(key: Any) -> Any:
    return key
