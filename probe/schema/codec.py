"""How a row or a document becomes bytes, and how bytes become one again.

JSON has no word for nan and the infinities: here they are the strings "nan", "inf" and "-inf", and
come back as floats. Missing is null, which is something else.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from probe.schema.rows import Row
from probe.schema.tables import TABLES

Document = TypeVar("Document", bound=msgspec.Struct)

FLOAT_FIELDS: dict[type[Row], tuple[str, ...]] = {
    table.row: tuple(field.name for field in table.fields if field.type is float)
    for table in TABLES
}

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines
DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What decoding bytes from a stranger can raise."""


def encode_row(row: Row) -> bytes:
    """A row as one whole line."""
    for name in FLOAT_FIELDS[type(row)]:
        value = getattr(row, name)
        # `value - value` is 0 for every finite number: the cheapest test that needs no call.
        if value is not None and value - value != 0:
            return _encode(with_words(msgspec.structs.asdict(row))) + b"\n"
    return _encode(row) + b"\n"


def encode_rows(rows: Sequence[Row]) -> bytes:
    """Rows of one table as whole lines."""
    if FLOAT_FIELDS[type(rows[0])]:
        return b"".join(map(encode_row, rows))
    # Of anything but a list msgspec keeps the iterator for ever: 64 bytes a call.
    return _encode_lines(rows if isinstance(rows, list) else list(rows))


def decode_row(line: bytes, row: type[Row]) -> Row:
    """A line as the row it was; raises one of DECODING_ERRORS for anything else."""
    return msgspec.json.decode(line, type=row, strict=False)


def encode_document(document: msgspec.Struct) -> bytes:
    """A manifest or a header as indented JSON, for people and for diff.

    Settings and command lines hold whatever the user's program holds: what JSON has no form for is
    written as its text.
    """
    plain = _with_utf8(with_words(msgspec.to_builtins(document, enc_hook=str)))
    return msgspec.json.format(_encode(plain), indent=2) + b"\n"


def decode_document(content: bytes, kind: type[Document]) -> tuple[Document, list[str]]:
    """As much of a document as can be read, and a sentence for each part that cannot.

    Each field of every document has a default, so one bad field costs only itself.
    """
    try:
        return msgspec.json.decode(content, type=kind, strict=False), []
    except DECODING_ERRORS as whole:
        try:
            plain = msgspec.json.decode(content)
        except DECODING_ERRORS:
            return kind(), [f"is not readable JSON ({whole})"]
    if not isinstance(plain, dict):
        return kind(), [f"holds a JSON {type(plain).__name__} where an object belongs"]
    faults: list[str] = []
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in plain:
            try:
                kept[field.name] = msgspec.convert(
                    plain[field.encode_name], type=field.type, strict=False
                )
            except DECODING_ERRORS as error:
                faults.append(f"field {field.encode_name!r}: {error}")
    return kind(**kept), faults


def with_words(value: Any) -> Any:
    """The same plain value with every float that JSON cannot say replaced by its word."""
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {key: with_words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_words(item) for item in value]
    return value


def _with_utf8(value: Any) -> Any:
    """The same plain value with file names that are no UTF-8 spelled out: JSON cannot hold them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_with_utf8(key): _with_utf8(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_utf8(item) for item in value]
    return value
