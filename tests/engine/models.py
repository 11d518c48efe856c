"""Small models that hold every case which sharding finds hard, and plain torch as the reference."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Attention left out: a norm, two matrices, a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Odd(nn.Module):
    """Tied, frozen and unused parameters; sizes that no world divides, one smaller than it."""

    def __init__(self, width: int = 7, depth: int = 3, words: int = 11) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.blocks[1].up.weight.requires_grad_(False)
        self.unused = nn.Linear(width, 3)
        self.gain = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x * self.gain)


def make_odd(seed: int = 0) -> Odd:
    torch.manual_seed(seed)
    return Odd()


def two_groups(model: nn.Module, decay: float = 0.1) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0, "lr": 3e-3},
    ]


def batch_of(step: int, rank: int, *, size: int = 4, length: int = 5, words: int = 11) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randint(words, (size, length), generator=generator)


def loss_of(model: Any, tokens: Tensor) -> Tensor:
    logits = model(tokens)
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def train_plainly(
    world: int,
    steps: int,
    *,
    clip: float = 0.0,
    make: Any = make_odd,
    optimizer: Any = torch.optim.AdamW,
) -> dict[str, Tensor]:
    """What world ranks do together, done by one process with nothing but torch."""
    model = make()
    opt = optimizer(two_groups(model), lr=1e-2)
    for step in range(steps):
        opt.zero_grad()
        for rank in range(world):
            (loss_of(model, batch_of(step, rank)) / world).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], clip)
        opt.step()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
