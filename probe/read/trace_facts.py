"""What a trace says of itself outside its events: rank, world, devices, clock."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from probe.read.trace_event import MALFORMED, NO_RAW
from probe.schema.documents import DeviceFacts
from probe.schema.trace import TraceFacts

_RANK_IN_NAME = re.compile(r"rank[_\-.]?(\d{1,6})", re.IGNORECASE)
_LONGEST_TEXT = 200
MOST_RANKS = 10_000_000
LATEST_BASE_NS = 2**62
"""In the year 2116; with any time of an event added it still fits 64 bits."""


_LONGEST_VALUE_BYTES = 4096
_LONGEST_LIST_BYTES = 1 << 20

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Outside(msgspec.Struct, gc=False):
    """The keys of a document outside its events that are of use, not decoded yet.

    What else stands there is passed over, however large, without becoming an object.
    """

    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=NO_RAW)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=NO_RAW)
    base: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=NO_RAW)
    schema: msgspec.Raw = msgspec.field(name="schemaVersion", default=NO_RAW)
    host: msgspec.Raw = msgspec.field(name="host_name", default=NO_RAW)
    cuda_runtime: msgspec.Raw = msgspec.field(name="cuda_runtime_version", default=NO_RAW)
    cuda_driver: msgspec.Raw = msgspec.field(name="cuda_driver_version", default=NO_RAW)
    record_shapes: msgspec.Raw = NO_RAW
    profile_memory: msgspec.Raw = NO_RAW
    with_stack: msgspec.Raw = NO_RAW
    with_modules: msgspec.Raw = NO_RAW
    with_flops: msgspec.Raw = NO_RAW


class _Distributed(msgspec.Struct, gc=False):
    rank: msgspec.Raw = NO_RAW
    world_size: msgspec.Raw = NO_RAW
    backend: msgspec.Raw = NO_RAW
    nccl_version: msgspec.Raw = NO_RAW


class _Device(msgspec.Struct, gc=False):
    name: msgspec.Raw = NO_RAW
    memory: msgspec.Raw = msgspec.field(name="totalGlobalMem", default=NO_RAW)


_OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")

decode_outside = msgspec.json.Decoder(Outside).decode


def add_outside(head: Outside, tail: Outside) -> Outside:
    """What stands before the events, and after them."""
    told = {
        field: getattr(tail, field)
        for field in tail.__struct_fields__
        if getattr(tail, field) is not NO_RAW
    }
    return msgspec.structs.replace(head, **told)


def facts_of(outside: Outside, *, file_name: str = "") -> TraceFacts:
    """The facts among the keys of a trace document; each is taken only if it makes sense."""
    distributed = _inside(outside.distributed, _Distributed) or _Distributed()
    rank = _whole(_value(distributed.rank), most=MOST_RANKS - 1)
    versions = {
        name: str(version)[:_LONGEST_TEXT]
        for name, version in (
            ("cuda_runtime", _value(outside.cuda_runtime)),
            ("cuda_driver", _value(outside.cuda_driver)),
            ("nccl", _value(distributed.nccl_version)),
        )
        if isinstance(version, int | str)
    }
    return TraceFacts(
        rank=rank if rank is not None else rank_in_name(file_name),
        world_size=_whole(_value(distributed.world_size), least=1, most=MOST_RANKS),
        backend=_text(_value(distributed.backend)),
        host=_text(_value(outside.host)),
        base_ns=min(_whole(_value(outside.base)) or 0, LATEST_BASE_NS),
        schema_version=_whole(_value(outside.schema)),
        devices=_devices(outside.devices),
        versions=versions,
        options=[name for name in _OPTIONS if _value(getattr(outside, name))],
    )


def rank_in_name(file_name: str) -> int | None:
    """The rank that a file's name speaks of, as `rank3.json.gz` and `rank_00003_step5.json` do."""
    match = _RANK_IN_NAME.search(file_name)
    return int(match[1]) if match else None


def with_left_out(facts: TraceFacts, left_out: Mapping[str, int]) -> TraceFacts:
    """The same facts with the events that were not kept."""
    return msgspec.structs.replace(facts, left_out=dict(left_out))


def _devices(listed: msgspec.Raw) -> list[DeviceFacts]:
    """Equal devices counted together."""
    if len(bytes(listed)) > _LONGEST_LIST_BYTES:
        return []
    try:
        devices = msgspec.json.decode(listed, type=list[_Device])
    except MALFORMED:
        return []
    counts: dict[tuple[str, int | None], int] = {}
    for device in devices:
        key = (_text(_value(device.name)), _whole(_value(device.memory)))
        counts[key] = counts.get(key, 0) + 1
    return [
        DeviceFacts(name=name, kind="cuda", memory_bytes=memory, count=count)
        for (name, memory), count in counts.items()
    ]


def _inside(raw: msgspec.Raw, kind: type[Kind]) -> Kind | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except MALFORMED:
        return None


def _value(raw: msgspec.Raw) -> Any:
    """A plain value; None for what is absent, too long to be one, or no JSON."""
    text = bytes(raw)
    if not text or len(text) > _LONGEST_VALUE_BYTES:
        return None
    try:
        return msgspec.json.decode(text)
    except MALFORMED:
        return None


def _whole(value: object, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
    """A whole number that a 64-bit column holds, also where it is written as text."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    return None


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
