"""What one rank writes: the records of its data one after another, then its document.

A rank writes what it owns and no other rank does, so there is nothing to plan and nobody to ask.
The document comes last and by renaming: where it is, the data before it is on disk.
"""

import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.documents import (
    RankDocument,
    Record,
    Scalar,
    data_name,
    document_name,
    encode,
)
from engine.checkpoint.pieces import Piece
from engine.precision import word_of
from probe.record.replacing import replace_file


def write_rank(
    path: Path,
    *,
    rank: int,
    pieces: Iterable[Piece],
    scalars: Callable[[], dict[str, dict[str, Tensor]]],
    own: dict[str, Any],
) -> int:
    """Write this rank's files; the bytes of its data. `scalars` is asked after the last piece."""
    records: list[Record] = []
    elements: dict[str, int] = {}
    at = 0
    with (path / data_name(rank)).open("wb", buffering=0) as file:
        for piece in pieces:
            content = bytes_of(piece.values)
            records.append(
                Record(
                    tensor=piece.tensor,
                    start=piece.start,
                    elements=piece.values.numel(),
                    dtype=word_of(piece.values.dtype),
                    at=at,
                    size_bytes=len(content),
                    crc32=zlib.crc32(content),
                )
            )
            elements[piece.tensor] = piece.whole_elements
            at += len(content)
            while content:
                content = content[file.write(content) :]
        os.fsync(file.fileno())
    document = RankDocument(
        rank=rank,
        records=records,
        tensor_elements=elements,
        scalars={
            parameter: {
                name: Scalar(value=value.item(), dtype=word_of(value.dtype))
                for name, value in values.items()
            }
            for parameter, values in scalars().items()
        },
        own=own,
    )
    replace_file(path / document_name(rank), encode(document))
    return at


def bytes_of(values: Tensor) -> memoryview:
    """The elements of a flat tensor as they lie in memory, copied only where they must be."""
    as_bytes: Any = values.cpu().contiguous().view(torch.uint8).numpy()
    return memoryview(as_bytes)
