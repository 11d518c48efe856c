"""Which of this rank's gradients came first in backward, and which went bad in which micro-batch.

Backward runs through a model in its own order, and a value that is no number spoils every gradient
that comes after it. So the first one to come is the one to blame, and the order of coming is
learned from the first backward. Where the sum over micro-batches is all that the reduction sees,
each rank also notes a sum of every gradient as it comes; nobody looks at these unless the step
overflows, so nothing is waited for.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.partition import Member


class FirstBad:
    """What is needed to say where an overflow began, collected while backward runs."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.notes_sums = False
        """Whether each micro-batch is noted on its own."""
        self._order: dict[str, None] = {}
        self._micro_batch = 0
        self._sums: dict[str, list[tuple[int, Tensor]]] = {}
        self._handles = [
            member.parameter.register_hook(self._hook(member.name))  # type: ignore[no-untyped-call]
            for member in members
        ]

    @property
    def order(self) -> list[str]:
        """Names of the parameters in the order in which their gradients came first."""
        return list(self._order)

    def begin(self, micro_batch: int) -> None:
        """A backward starts."""
        self._micro_batch = micro_batch
        if micro_batch == 0:
            self._sums.clear()

    def end(self) -> None:
        """The backward is over; the order is known from now on."""
        if self._order and not self.notes_sums:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()

    def micro_batches(self) -> dict[str, int]:
        """For each gradient of this rank that went bad, in which micro-batch it did first."""
        return {
            name: bad[0]
            for name, sums in self._sums.items()
            if (bad := [number for number, total in sums if not bool(total.isfinite())])
        }

    def _hook(self, name: str) -> Callable[[Tensor], None]:
        def came(gradient: Tensor) -> None:
            self._order.setdefault(name)
            if self.notes_sums:
                values = gradient.coalesce().values() if gradient.is_sparse else gradient
                total = values.sum(dtype=torch.float32)
                self._sums.setdefault(name, []).append((self._micro_batch, total))

        return came
