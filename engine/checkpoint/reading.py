"""A checkpoint as torch.distributed.checkpoint reads one: its metadata, and elements by request.

    reader = CheckpointReader(open_checkpoint(path))
    torch.distributed.checkpoint.load({"master.head.weight": flat}, storage_reader=reader)

Its interface for storage is implemented here and its planning is used to cut what is needed out of
what was saved; its own files are not, see `documents`. Nor are its collectives: loading needs none,
each rank reads what it lacks, and while saving they would wait for a lost peer for half an hour.
"""

import os
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from engine.checkpoint.documents import Opened, Record, data_name, document_name
from engine.checkpoint.opening import damaged, opened, read_at

_DTYPES: dict[str, torch.dtype] = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    **{
        str(dtype).removeprefix("torch."): dtype
        for dtype in (
            torch.float64,
            torch.int64,
            torch.int32,
            torch.int16,
            torch.int8,
            torch.uint8,
            torch.bool,
            torch.complex64,
            torch.complex128,
        )
    },
}
"""The types that a record may have, under the words that it is written with."""

Home = tuple[int, Record]
"""Whose data a record lies in, and the record."""


class CheckpointReader(StorageReader):
    """Reads elements of tensors, each record checked against its sum."""

    def __init__(self, checkpoint: Opened) -> None:
        self._checkpoint = checkpoint
        self._metadata, self._homes = _metadata_of(checkpoint)
        self._elements = {
            tensor: elements
            for document in checkpoint.ranks
            for tensor, elements in document.tensor_elements.items()
        }

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing: a reader is of one checkpoint."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Which tensors there are, and in which runs of elements."""
        return self._metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing: the documents were read before."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """In the order that it was made."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Each rank as it likes."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fill what the planner asks for, in its order: it decides what is held at once."""
        with ExitStack() as files:
            descriptors: dict[int, int] = {}
            last: tuple[Record, Tensor] | None = None
            for item in plan.items:
                rank, record = self._home(item)
                if last is None or last[0] is not record:
                    if rank not in descriptors:
                        path = self._checkpoint.path / data_name(rank)
                        descriptors[rank] = files.enter_context(opened(path))
                    last = record, self._read(descriptors[rank], rank, record)
                start, length = item.storage_offsets[0], item.lengths[0]
                target = planner.resolve_tensor(item)
                target.copy_(last[1][start : start + length])
                planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """A reader is made from an opened checkpoint, not from a name."""
        return False

    def elements(self) -> dict[str, int]:
        """The size of every whole tensor."""
        return dict(self._elements)

    def verify(self, *, share: int, shares: int) -> None:
        """Read one share of all records and check their sums."""
        homes = list(self._homes.values())
        with ExitStack() as files:
            descriptors: dict[int, int] = {}
            for rank, record in homes[
                len(homes) * share // shares : len(homes) * (share + 1) // shares
            ]:
                if rank not in descriptors:
                    path = self._checkpoint.path / data_name(rank)
                    descriptors[rank] = files.enter_context(opened(path))
                self._read(descriptors[rank], rank, record)

    def _home(self, item: ReadItem) -> Home:
        index = item.storage_index
        assert index.offset is not None, "planned from our own metadata"
        return self._homes[index.fqn, index.offset[0]]

    def _read(self, descriptor: int, rank: int, record: Record) -> Tensor:
        path = self._checkpoint.path / data_name(rank)
        content = read_at(descriptor, path, record.at, record.size_bytes)
        if zlib.crc32(content) != record.crc32:
            raise damaged(path, f"the checksum of {record.tensor} is wrong at byte {record.at}")
        return torch.frombuffer(content, dtype=_DTYPES[record.dtype])


def _metadata_of(checkpoint: Opened) -> tuple[Metadata, dict[tuple[str, int], Home]]:
    """Every tensor with its runs, which must cover it once and wholly."""
    homes: dict[tuple[str, int], Home] = {}
    runs: dict[str, list[Home]] = {}
    elements: dict[str, int] = {}
    for document in checkpoint.ranks:
        file = checkpoint.path / document_name(document.rank)
        for record in document.records:
            dtype = _DTYPES.get(record.dtype)
            if dtype is None or record.elements * dtype.itemsize != record.size_bytes:
                raise damaged(file, f"a record of {record.tensor} has no such length or type")
            runs.setdefault(record.tensor, []).append((document.rank, record))
            homes[record.tensor, record.start] = document.rank, record
        for tensor, count in document.tensor_elements.items():
            if elements.setdefault(tensor, count) != count:
                raise damaged(file, f"{tensor} has another size than on other ranks")
    described: dict[str, Any] = {}
    for tensor, some in runs.items():
        some.sort(key=lambda home: home[1].start)
        file = checkpoint.path / document_name(some[0][0])
        if len({record.dtype for _, record in some}) > 1:
            raise damaged(file, f"{tensor} is of several types")
        if tensor not in elements or not _tile(some, elements[tensor]):
            raise damaged(file, f"parts of {tensor} are missing or there twice")
        described[tensor] = TensorStorageMetadata(
            properties=TensorProperties(dtype=_DTYPES[some[0][1].dtype]),
            size=torch.Size([elements[tensor]]),
            chunks=[
                ChunkStorageMetadata(
                    offsets=torch.Size([record.start]), sizes=torch.Size([record.elements])
                )
                for _, record in some
            ],
        )
    return Metadata(state_dict_metadata=described), homes


def _tile(runs: Sequence[Home], elements: int) -> bool:
    reached = 0
    for _, record in runs:
        if record.start != reached:
            return False
        reached += record.elements
    return reached == elements
