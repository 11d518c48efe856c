"""What a sealed file says of its origin: how much of each rank's lines it holds, and their faults.

Sealing writes these notes into the metadata of the Parquet file, and reading takes them back. They
are decoded into the shape that they must have, so that no others cost memory or are believed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import msgspec

from probe.read.problem import Problem
from probe.schema.codec import DECODING_ERRORS
from probe.schema.layout import rank_of

_PROBLEMS = b"zeroprobe.problems"
_SOURCES = b"zeroprobe.sources"

_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def notes_of(sources: Mapping[int, int], problems: Sequence[Problem]) -> dict[bytes, bytes]:
    """The metadata of a sealed file."""
    return {
        _SOURCES: msgspec.json.encode(sources),
        _PROBLEMS: msgspec.json.encode(problems),
    }


def noted_problems(metadata: Mapping[bytes, bytes], ranks: Collection[int] | None) -> list[Problem]:
    """The problems that the lines had when they were sealed; only those of the ranks wanted."""
    try:
        noted = msgspec.json.decode(metadata.get(_PROBLEMS, b"[]"), type=list[Problem])
    except DECODING_ERRORS:
        return []
    if ranks is None:
        return noted
    return [item for item in noted if rank_of(item.file.split("/")[0]) in {None, *ranks}]


def noted_sources(metadata: Mapping[bytes, bytes]) -> dict[int, int]:
    """How many bytes of each rank's file went into the sealed one."""
    try:
        return msgspec.json.decode(metadata.get(_SOURCES, b"{}"), type=dict[int, _Size])
    except DECODING_ERRORS:
        return {}
