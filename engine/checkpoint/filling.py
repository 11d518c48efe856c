"""What this rank asks a checkpoint for: runs of whole tensors, put together into its own pieces.

One destination is put together at a time, handed over and let go before the next, so a state that
rests on disk is loaded through memory for one segment.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.storage import StorageReader

from engine.checkpoint.pieces import Destination


class Filling(LoadPlanner):
    """The load planner of torch.distributed.checkpoint for a list of destinations."""

    def __init__(self, destinations: Sequence[Destination]) -> None:
        self._destinations = destinations
        self._home = {
            (place.tensor, place.start): (destination, place.at)
            for destination in destinations
            for place in destination.places
        }
        self._metadata = Metadata(state_dict_metadata={})
        self._open: Destination | None = None
        self._values = torch.empty(0)
        self._missing_elements = 0

    def fill(self, reader: StorageReader) -> None:
        """Read everything; the order of calls that torch.distributed.checkpoint lays down."""
        metadata = reader.read_metadata()
        self.set_up_planner({}, metadata, True)
        reader.set_up_storage_reader(metadata, True)
        plan = reader.prepare_local_plan(self.create_local_plan())
        (plan,) = reader.prepare_global_plan(self.create_global_plan([plan]))
        reader.read_data(self.finish_plan(plan), self).wait()

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Learn which runs there are."""
        assert metadata is not None, "the reader has it"
        self._metadata = metadata

    def create_local_plan(self) -> LoadPlan:
        """The overlaps of what was saved with what is wanted, destination by destination."""
        items: list[ReadItem] = []
        for destination in self._destinations:
            for place in destination.places:
                items += create_read_items_for_chunk_list(
                    place.tensor,
                    self._of(place.tensor),
                    [
                        ChunkStorageMetadata(
                            offsets=torch.Size([place.start]), sizes=torch.Size([place.elements])
                        )
                    ],
                )
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Each rank reads what it needs."""
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """As it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        """Not asked for: there are tensors only."""
        raise AssertionError(read_item)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where some elements go."""
        destination, at = self._find(read_item)
        if self._open is not destination:
            assert self._missing_elements == 0, "one is full before the next begins"
            dtype = self._of(destination.places[0].tensor).properties.dtype
            self._open, self._missing_elements = destination, destination.elements
            self._values = torch.empty(0)
            self._values = torch.empty(destination.elements, dtype=dtype)
        start = at + read_item.dest_offsets[0]
        return self._values[start : start + read_item.lengths[0]]

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Some elements are there; with the last of them the destination takes them over."""
        self._missing_elements -= tensor.numel()
        if self._missing_elements == 0:
            assert self._open is not None, "it was resolved before"
            self._open.take(self._values)

    def _find(self, item: ReadItem) -> tuple[Destination, int]:
        index = item.dest_index
        assert index.offset is not None, "planned from our own places"
        return self._home[index.fqn, index.offset[0]]

    def _of(self, tensor: str) -> TensorStorageMetadata:
        found = self._metadata.state_dict_metadata[tensor]
        assert isinstance(found, TensorStorageMetadata)
        return found
