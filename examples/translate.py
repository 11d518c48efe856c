"""A sequence-to-sequence model that learns to put digits into order.

An encoder reads eight digits, a decoder writes them sorted, one after the other.

    probe run examples/translate.py --stage 3 --bf16
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

import engine

BEGIN, SYMBOLS = 10, 11


class Sorter(nn.Module):
    """Encoder and decoder over one set of symbols."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, width)
        self.places = nn.Embedding(length, width)
        shape = {"nhead": 4, "dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True}
        self.reads = nn.ModuleList(nn.TransformerEncoderLayer(width, **shape) for _ in range(2))
        self.writes = nn.ModuleList(nn.TransformerDecoderLayer(width, **shape) for _ in range(2))
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, source: Tensor, so_far: Tensor) -> Tensor:
        """Scores of each next symbol, given the source and the symbols before it."""
        meaning, x = self._embed(source), self._embed(so_far)
        length = so_far.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        for layer in self.reads:
            meaning = layer(meaning)
        for layer in self.writes:
            x = layer(x, meaning, tgt_mask=future)
        scores: Tensor = self.head(x)
        return scores

    def _embed(self, symbols: Tensor) -> Tensor:
        embedded: Tensor = self.symbols(symbols) + self.places.weight[: symbols.shape[1]]
        return embedded


def sentences(count: int, length: int, chance: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Digits, their sorted form one place late, and the sorted form itself."""
    source = torch.randint(10, (count, length), generator=chance)
    target = source.sort(dim=1).values
    begin = torch.full((count, 1), BEGIN)
    return source, torch.cat([begin, target[:, :-1]], dim=1), target


def main() -> None:
    """Train for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64, help="sequences a rank and step")
    parser.add_argument("--length", type=int, default=8)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = Sorter(arguments.width, arguments.length)
    trainer, _, _, _ = engine.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": arguments.batch,
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-3}},
            "gradient_clipping": 1.0,
        },
    )
    chance = torch.Generator().manual_seed(trainer.global_rank)
    for _ in range(arguments.steps):
        source, so_far, target = (
            part.to(trainer.device) for part in sentences(arguments.batch, arguments.length, chance)
        )
        scores = trainer(source, so_far)
        loss = functional.cross_entropy(scores.float().flatten(0, 1), target.flatten())
        trainer.backward(loss)
        engine.log(
            tokens=source.numel() + target.numel(),
            right_symbols=(scores.argmax(dim=2) == target).float().mean().item(),
        )
        trainer.step()
    if trainer.global_rank == 0:
        print(f"loss {loss.item():.3f} after {trainer.global_steps} steps")


if __name__ == "__main__":
    main()
