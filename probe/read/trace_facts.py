"""What a trace says of itself outside its events: rank, world, devices, clock."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from probe.schema.documents import DeviceFacts
from probe.schema.trace import TraceFacts

_RANK_IN_NAME = re.compile(r"rank[_\-.]?(\d{1,6})", re.IGNORECASE)
_VERSION_KEYS = {"cuda_runtime_version": "cuda_runtime", "cuda_driver_version": "cuda_driver"}
_LONGEST_TEXT = 200
MOST_RANKS = 10_000_000
LATEST_BASE_NS = 2**62
"""In the year 2116; with any time of an event added it still fits 64 bits."""


def facts_of(outside: Mapping[str, Any], *, file_name: str = "") -> TraceFacts:
    """The facts among the keys of a trace document; each is taken only if it makes sense."""
    distributed = outside.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    rank = _whole(distributed.get("rank"), most=MOST_RANKS - 1)
    versions = {
        name: str(outside[key])[:_LONGEST_TEXT]
        for key, name in _VERSION_KEYS.items()
        if isinstance(outside.get(key), int | str)
    }
    if nccl := _text(distributed.get("nccl_version")):
        versions["nccl"] = nccl
    recorded = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
    return TraceFacts(
        rank=rank if rank is not None else rank_in_name(file_name),
        world_size=_whole(distributed.get("world_size"), least=1, most=MOST_RANKS),
        backend=_text(distributed.get("backend")),
        host=_text(outside.get("host_name")),
        base_ns=min(_whole(outside.get("baseTimeNanoseconds")) or 0, LATEST_BASE_NS),
        schema_version=_whole(outside.get("schemaVersion")),
        devices=_devices(outside.get("deviceProperties")),
        versions=versions,
        options=[name for name in recorded if outside.get(name)],
    )


def rank_in_name(file_name: str) -> int | None:
    """The rank that a file's name speaks of, as `rank3.json.gz` and `rank_00003_step5.json` do."""
    match = _RANK_IN_NAME.search(file_name)
    return int(match[1]) if match else None


def with_left_out(facts: TraceFacts, left_out: Mapping[str, int]) -> TraceFacts:
    """The same facts with the events that were not kept."""
    return msgspec.structs.replace(facts, left_out=dict(left_out))


def _devices(listed: object) -> list[DeviceFacts]:
    """Equal devices counted together."""
    counts: dict[tuple[str, int | None], int] = {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict):
            key = (_text(item.get("name")), _whole(item.get("totalGlobalMem")))
            counts[key] = counts.get(key, 0) + 1
    return [
        DeviceFacts(name=name, kind="cuda", memory_bytes=memory, count=count)
        for (name, memory), count in counts.items()
    ]


def _whole(value: object, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
    """A whole number that a 64-bit column holds, also where it is written as text."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    return None


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
