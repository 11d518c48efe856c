"""A GPT in plain PyTorch, and data that it can learn: what every contestant trains.

The full shape has 20.6M parameters in 8 blocks, with separate input and output embeddings. It is
deep rather than wide on purpose: work that an engine does per module or per parameter shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The dimensions of a GPT."""

    vocabulary: int
    sequence: int
    width: int
    heads: int
    blocks: int


FULL = Shape(vocabulary=8192, sequence=128, width=384, heads=6, blocks=8)
SMALL = Shape(vocabulary=64, sequence=16, width=32, heads=2, blocks=2)
TINY = Shape(vocabulary=64, sequence=16, width=16, heads=1, blocks=1)
"""Steps of a few milliseconds: what an engine or a recorder costs each step shows here."""


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.project_in = nn.Linear(shape.width, 3 * shape.width)
        self.project_out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it."""
        batch, sequence, width = x.shape
        query, key, value = (
            part.view(batch, sequence, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project_in(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.project_out(mixed.transpose(1, 2).reshape(batch, sequence, width))
        return out


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a norm and around a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm_perceptron = nn.LayerNorm(shape.width)
        self.perceptron = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention and the perceptron have to say."""
        x = x + self.attention(self.norm_attention(x))
        out: Tensor = x + self.perceptron(self.norm_perceptron(x))
        return out


class GPT(nn.Module):
    """Tokens and targets in, mean cross-entropy out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss; the logits are widened to fp32 before the softmax."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def build_model(shape: Shape, seed: int) -> GPT:
    """Return the same fp32 model on every rank and for every contestant."""
    torch.manual_seed(seed)
    return GPT(shape)


def batches(shape: Shape, micro_batch: int, seed: int, rank: int) -> Iterator[Batch]:
    """Yield this rank's batches without end: each token is a fixed successor of the last, or noise.

    The successor rule is the same on all ranks, so the loss falls within tens of steps and two
    engines that differ come apart visibly.
    """
    rule = torch.randperm(shape.vocabulary, generator=torch.Generator().manual_seed(seed))
    noise = torch.Generator().manual_seed(seed + 1 + rank)
    common = max(shape.vocabulary // 32, 2)
    while True:
        rows = torch.empty(micro_batch, shape.sequence + 1, dtype=torch.long)
        rows[:, 0] = torch.randint(common, (micro_batch,), generator=noise)
        fresh = torch.randint(common, rows.shape, generator=noise)
        keep = torch.rand(rows.shape, generator=noise) < 0.75
        for column in range(1, shape.sequence + 1):
            follow = rule[rows[:, column - 1]] % common
            rows[:, column] = torch.where(keep[:, column], follow, fresh[:, column])
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
