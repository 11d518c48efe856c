"""One event of a Kineto trace, with only the fields that are kept.

Everything else in an event is passed over without becoming an object. An event with a field of a
type that no profiler writes loses its arguments, and one that has no name or time is none at all.
"""

import math
from typing import Any

import msgspec

NO_RAW = msgspec.Raw(b"")
"""The very object that stands where there was no text: to be compared by identity."""


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an event that are kept; -1 and empty say that there was none."""

    external: int = msgspec.field(name="External id", default=-1)
    correlation: int = -1
    size: int = msgspec.field(name="bytes", default=-1)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NO_RAW)
    dtypes: msgspec.Raw = msgspec.field(name="Input type", default=NO_RAW)
    collective: str = msgspec.field(name="Collective name", default="")
    group: int | str = msgspec.field(name="Process Group Name", default="")
    group_size: int = msgspec.field(name="Group size", default=-1)
    dtype: str = ""
    in_elements: int = msgspec.field(name="In msg nelems", default=-1)
    out_elements: int = msgspec.field(name="Out msg nelems", default=-1)


NO_ARGUMENTS = Arguments()


class Event(msgspec.Struct, gc=False):
    """One element of `traceEvents`."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = -1
    tid: int | str = -1
    args: Arguments = NO_ARGUMENTS


class _AnyEvent(msgspec.Struct, gc=False):
    """The same with nothing taken for granted."""

    ph: Any = ""
    cat: Any = ""
    name: Any = ""
    ts: Any = 0.0
    dur: Any = 0.0
    pid: Any = -1
    tid: Any = -1
    args: Any = None


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
"""What decoding text from a stranger can raise."""

decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_any = msgspec.json.Decoder(_AnyEvent, strict=False).decode


def decode_doubtful(text: bytes) -> Event | None:
    """One element as far as it is an event; None if it is none; MALFORMED if it is no JSON."""
    try:
        found = _decode_any(text)
    except msgspec.ValidationError:
        return None
    begin, length = _number(found.ts), _number(found.dur)
    if not isinstance(found.name, str) or not isinstance(found.ph, str):
        return None
    if begin is None or length is None:
        return None
    return Event(
        ph=found.ph,
        cat=found.cat if isinstance(found.cat, str) else "",
        name=found.name,
        ts=begin,
        dur=length,
        pid=found.pid if isinstance(found.pid, int) else str(found.pid),
        tid=found.tid if isinstance(found.tid, int) else str(found.tid),
        args=_arguments(found.args),
    )


def _arguments(plain: Any) -> Arguments:
    """Those arguments that are of their type."""
    if not isinstance(plain, dict):
        return NO_ARGUMENTS
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(Arguments):
        if field.encode_name in plain and field.type is not msgspec.Raw:
            try:
                kept[field.name] = msgspec.convert(
                    plain[field.encode_name], field.type, strict=False
                )
            except MALFORMED:
                continue
    return Arguments(**kept)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
