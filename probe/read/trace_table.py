"""A trace as an Arrow table with the columns of the schema, and back."""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from probe.read.columns import arrow_type
from probe.read.problem import Problem
from probe.read.trace import (
    CATEGORIES,
    CODE_OF,
    NONE,
    CollectiveFacts,
    Events,
    Int64s,
    Lane,
    Signature,
    Trace,
)
from probe.schema.codec import DECODING_ERRORS
from probe.schema.trace import FACTS_KEY, PROBLEMS_KEY, TRACE, TraceFacts
from probe.schema.vocabulary import TraceCategory

_LATEST_NS = 2**62
"""A begin and a duration up to here add up within 64 bits."""
_NUMBERS = ("external_id", "correlation", "size_bytes")
_LANE = ("process", "thread")
_SIGNATURE = ("shapes", "dtypes")
_COLLECTIVE = ("collective", "group", "group_size", "dtype", "in_elements", "out_elements")


def trace_schema() -> pa.Schema:
    """The columns as the schema states them; texts by dictionary, since they repeat."""
    fields = []
    for column in TRACE.fields:
        kind = arrow_type(column)
        kind = pa.dictionary(pa.int32(), kind) if kind == pa.string() else kind
        fields.append(pa.field(column.name, kind))
    return pa.schema(fields)


def to_table(trace: Trace) -> pa.Table:
    """A trace as columns, its facts and problems in the metadata."""
    events = trace.events
    columns: dict[str, pa.Array] = {
        "start_ns": pa.array(events.start_ns),
        "duration_ns": pa.array(events.duration_ns),
        "category": _by_code(events.category.astype(np.int32), [word.value for word in CATEGORIES]),
        "name": _by_code(events.name, list(trace.names)),
    }
    for name in _NUMBERS:
        values = getattr(events, name)
        columns[name] = pa.array(values, mask=values == NONE)
    for name in _LANE:
        columns[name] = _by_code(events.lane, [getattr(lane, name) for lane in trace.lanes])
    for name in _SIGNATURE:
        texts = [getattr(signature, name) for signature in trace.signatures]
        columns[name] = _by_code(events.signature, texts)
    for name in _COLLECTIVE:
        field = "name" if name == "collective" else name
        values = [getattr(facts, field) for facts in trace.collectives]
        columns[name] = _by_code(events.collective, values)
    schema = trace_schema()
    metadata = {
        FACTS_KEY: msgspec.json.encode(trace.facts),
        PROBLEMS_KEY: msgspec.json.encode(trace.problems),
    }
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.table(arrays, schema=schema.with_metadata(metadata))


def from_table(table: pa.Table) -> Trace:
    """The trace that a table is; absent columns are as if nothing was recorded.

    Raises one of `probe.read.sealed.READING_ERRORS` where a column is not what the schema says.
    """
    rows = table.num_rows
    words, category = _codes(table, ["category"])
    known = np.array([_category_code(word) for (word,) in words] or [0], np.uint8)
    names, name = _codes(table, ["name"])
    lanes, lane = _codes(table, list(_LANE))
    signatures, signature = _codes(table, list(_SIGNATURE), none_if_first_is_none=True)
    collectives, collective = _codes(table, list(_COLLECTIVE), none_if_first_is_none=True)
    metadata = table.schema.metadata or {}
    return Trace(
        facts=_facts(metadata.get(FACTS_KEY, b"{}")),
        events=Events(
            start_ns=np.clip(_numbers(table, "start_ns", rows), -_LATEST_NS, _LATEST_NS),
            duration_ns=np.clip(_numbers(table, "duration_ns", rows), 0, _LATEST_NS),
            category=known[category],
            name=name,
            lane=lane,
            external_id=_numbers(table, "external_id", rows),
            correlation=_numbers(table, "correlation", rows),
            size_bytes=_numbers(table, "size_bytes", rows),
            signature=signature,
            collective=collective,
        ),
        names=tuple(str(text or "") for (text,) in names),
        lanes=tuple(Lane(process=str(one or ""), thread=str(two or "")) for one, two in lanes),
        signatures=tuple(
            Signature(shapes=str(one or ""), dtypes=str(two or "")) for one, two in signatures
        ),
        collectives=tuple(
            CollectiveFacts(
                name=str(word or ""),
                group=str(group or ""),
                group_size=_whole(size),
                dtype=str(dtype or ""),
                in_elements=_whole(taken),
                out_elements=_whole(given),
            )
            for word, group, size, dtype, taken, given in collectives
        ),
        problems=_problems(metadata.get(PROBLEMS_KEY, b"[]")),
    )


def _by_code(codes: npt.NDArray[np.int32], values: list[object]) -> pa.Array:
    """One value a code; none where there is no code."""
    missing = codes == NONE
    indices = pa.array(codes.astype(np.int64), mask=missing)
    texts = pa.array(values) if values else pa.array([None], pa.string())
    taken = pc.take(texts, indices)
    return taken.dictionary_encode() if pa.types.is_string(taken.type) else taken


def _numbers(table: pa.Table, name: str, rows: int) -> Int64s:
    if name not in table.column_names:
        return np.full(rows, NONE, np.int64)
    column = table[name].cast(pa.int64())
    values: Int64s = pc.fill_null(column, NONE).to_numpy().astype(np.int64)
    return values


def _codes(
    table: pa.Table, columns: list[str], *, none_if_first_is_none: bool = False
) -> tuple[list[tuple[object, ...]], npt.NDArray[np.int32]]:
    """The distinct combinations of some columns, and which of them each row has."""
    rows = table.num_rows
    combined = np.zeros(rows, np.int64)
    lists: list[list[object]] = []
    for name in columns:
        values, codes = _column_codes(table, name, rows)
        lists.append(values)
        _, combined = np.unique(combined * (len(values) + 1) + codes, return_inverse=True)
        combined = combined.astype(np.int64)
    _, firsts = np.unique(combined, return_index=True)
    per_column = [_column_codes(table, name, rows)[1][firsts] for name in columns]
    distinct = [
        tuple(
            values[code] if code != NONE else None for values, code in zip(lists, row, strict=True)
        )
        for row in zip(*per_column, strict=True)
    ]
    codes32 = combined.astype(np.int32)
    if none_if_first_is_none:
        without = np.array([row[0] is None for row in distinct] or [False])
        codes32 = np.where(without[codes32], np.int32(NONE), codes32)
    return distinct, codes32


def _column_codes(table: pa.Table, name: str, rows: int) -> tuple[list[object], Int64s]:
    if name not in table.column_names:
        return [], np.full(rows, NONE, np.int64)
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes: Int64s = pc.fill_null(column.indices, NONE).to_numpy(zero_copy_only=False)
    return column.dictionary.to_pylist(), codes.astype(np.int64)


def _category_code(word: object) -> int:
    """A word that a newer version added is an event of another kind."""
    try:
        return CODE_OF[TraceCategory(str(word))]
    except ValueError:
        return CODE_OF[TraceCategory.OTHER]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _facts(text: bytes) -> TraceFacts:
    try:
        return msgspec.json.decode(text, type=TraceFacts)
    except DECODING_ERRORS:
        return TraceFacts()


def _problems(text: bytes) -> tuple[Problem, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Problem, ...])
    except DECODING_ERRORS:
        return ()
