"""Activations of a transformer in bytes: what forward saves for backward, per rank.

One layer with sequence s, micro-batch b, hidden size h and a heads, in elements of e bytes, saves

    s·b·h·(16·e + 2)  +  a·s²·b·(2·e + 1)

which is s·b·h·(34 + 5·a·s/h) bytes in 16 bit: sixteen tensors of the size of the hidden state and
two dropout masks, then softmax, its dropout and that mask for every pair of positions. Fused
attention never stores what is per pair; it keeps one fp32 number a head and position instead. With
a vocabulary of v words, the logits in fp32 add 4·s·b·v.

A checkpointed layer keeps its input only, e·s·b·h, and has all of its activations back while its
backward runs. The peak is taken over backward, which goes from the last layer to the first.

For L=32, h=4096, a=32, s=2048, b=1 this is exactly 28.5 GiB, which is 30.6 GB. The often quoted
"14 + 28.5 = 42.5 GB" for a 7B model in stage 3 adds GB to GiB: it is 44.6 GB, or 41.5 GiB.
"""

from dataclasses import dataclass
from enum import StrEnum


class Attention(StrEnum):
    """Whether attention stores a number for every pair of positions."""

    SCORES = "scores"
    FUSED = "fused"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The facts of a transformer and its batch that decide its activations."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    micro_batch: int = 1
    vocabulary: int = 0
    """0: without the logits."""
    checkpoint_every: int = 0
    """0: no layer is checkpointed; k: every k-th is."""
    attention: Attention = Attention.SCORES


def layer_bytes(shape: Shape, *, element_bytes: int = 2) -> int:
    """What one layer saves when it is not checkpointed."""
    positions = shape.sequence * shape.micro_batch
    states = positions * shape.hidden * (16 * element_bytes + 2)
    if shape.attention is Attention.FUSED:
        return states + 4 * shape.heads * positions
    return states + shape.heads * shape.sequence * positions * (2 * element_bytes + 1)


def activation_bytes(shape: Shape, *, element_bytes: int = 2) -> int:
    """The most that is saved at any moment of forward and backward."""
    whole = layer_bytes(shape, element_bytes=element_bytes)
    positions = shape.sequence * shape.micro_batch
    entry = element_bytes * positions * shape.hidden
    every = shape.checkpoint_every
    checkpointed = [bool(every) and number % every == 0 for number in range(1, shape.layers + 1)]
    kept = sum(entry if forgets else whole for forgets in checkpointed)
    peak = kept
    for forgets in reversed(checkpointed):
        peak = max(peak, kept + whole if forgets else kept)
        kept -= entry if forgets else whole
    return peak + 4 * positions * shape.vocabulary
