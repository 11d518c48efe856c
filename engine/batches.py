"""The batches of a rank's own share of a data set, from any place in it.

The place is how many samples all ranks together have taken in this epoch: another number of ranks
goes on from the same sample.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from engine.tracing import PhaseClock
from probe.schema.vocabulary import Phase


class TimedLoader:
    """The batches of this rank, with the time they take given to the data phase."""

    def __init__(
        self,
        data: Dataset[Any],
        *,
        batch_samples: int,
        rank: int,
        world: int,
        clock: PhaseClock,
        collate: Callable[[list[Any]], Any] | None,
    ) -> None:
        self._clock = clock
        self._batch_samples = batch_samples
        self._samples_of_all = batch_samples * world
        self._share: DistributedSampler[Any] = DistributedSampler(
            data, num_replicas=world, rank=rank
        )
        self._rest = _Rest(self._share)
        self._loader: DataLoader[Any] = DataLoader(
            data,
            batch_size=batch_samples,
            sampler=self._rest,
            collate_fn=collate,
            drop_last=True,
        )
        self._epoch = -1
        self._taken = 0
        self._goes_on = False

    @property
    def epoch(self) -> int:
        """The epoch under way or, before the first one, to come; after a resume its rest is."""
        return max(self._epoch, 0)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        went_on = self._goes_on
        if went_on:
            self._goes_on = False
        else:
            self._epoch += 1
            self._taken = 0
        self._share.set_epoch(self._epoch)
        self._rest.first = self._taken * self._batch_samples
        with _no_random_number_used() if went_on else nullcontext():
            batches = iter(self._loader)
        while True:
            with self._clock.phase(Phase.DATA):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            self._taken += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """The place."""
        return {"epoch": self._epoch, "samples": self._taken * self._samples_of_all}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """The next iteration begins there."""
        self._epoch = state["epoch"]
        self._taken = state["samples"] // self._samples_of_all
        self._goes_on = self._epoch >= 0


class _Rest(Sampler[Any]):
    """What is left of a rank's share after its first samples."""

    def __init__(self, share: DistributedSampler[Any]) -> None:
        self._share = share
        self.first = 0

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._share), self.first, None)

    def __len__(self) -> int:
        return len(self._share)


def _no_random_number_used() -> AbstractContextManager[None]:
    # A DataLoader draws a seed as its iteration begins. Going on within an epoch it was drawn
    # before the checkpoint, and a second one would move every dropout after it.
    return torch.random.fork_rng(devices=[])
