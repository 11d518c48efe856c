"""A BERT-like encoder that reads a review and says whether it was a good one.

The reviews are made up here: filler words, and five opinions of which most decide.

    probe run examples/text_classifier.py --stage 2 --bf16
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

import engine

FILLERS = ["the", "film", "was", "shown", "on", "friday", "with", "music", "for", "two", "hours"]
GOOD = ["great", "moving", "funny", "clever", "lovely"]
BAD = ["dull", "weak", "noisy", "tired", "awful"]
WORDS = ["[cls]", *FILLERS, *GOOD, *BAD]
OPINIONS = 5
LATE_S = 0.1
NUMBER = {word: number for number, word in enumerate(WORDS)}


def reviews(count: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Words as numbers, and 1 for each review with more good opinions than bad ones."""
    chance = torch.Generator().manual_seed(seed)

    def draw(words: list[str], *shape: int) -> Tensor:
        numbers = torch.tensor([NUMBER[word] for word in words])
        return numbers[torch.randint(len(words), shape, generator=chance)]

    texts = draw(FILLERS, count, length)
    is_good = torch.randint(2, (count, OPINIONS), generator=chance).bool()
    opinions = torch.where(is_good, draw(GOOD, count, OPINIONS), draw(BAD, count, OPINIONS))
    places = torch.rand(count, length, generator=chance).argsort(dim=1)[:, :OPINIONS]
    texts.scatter_(1, places, opinions)
    first = torch.full((count, 1), NUMBER["[cls]"])
    return torch.cat([first, texts], dim=1), (is_good.sum(dim=1) > OPINIONS // 2).long()


class Encoder(nn.Module):
    """Words and places in, attention in both directions, a verdict from the first place."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), width)
        self.places = nn.Embedding(length + 1, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True
            )
            for _ in range(layers)
        )
        self.verdict = nn.Linear(width, 2)

    def forward(self, texts: Tensor) -> Tensor:
        x = self.words(texts) + self.places.weight[: texts.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.verdict(x[:, 0])
        return scores


def main() -> None:
    """Train on fresh reviews; test on the same ones now and then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32, help="reviews a rank and step")
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--slow-rank", type=int, help="a rank whose reviews come late")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = Encoder(arguments.width, layers=2, length=arguments.length)
    trainer, _, _, _ = engine.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": arguments.batch,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "gradient_clipping": 1.0,
        },
    )
    test_texts, test_verdicts = reviews(256, arguments.length, seed=1)
    for step in range(arguments.steps):
        with engine.annotate("data"):
            seed = 2 + step * trainer.world_size + trainer.global_rank
            texts, verdicts = reviews(arguments.batch, arguments.length, seed)
            if trainer.global_rank == arguments.slow_rank:
                time.sleep(LATE_S)
        scores = trainer(texts.to(trainer.device))
        loss = functional.cross_entropy(scores.float(), verdicts.to(trainer.device))
        trainer.backward(loss)
        trainer.step()
        if (step + 1) % 25 == 0 or step + 1 == arguments.steps:
            with torch.no_grad():
                answers = trainer(test_texts.to(trainer.device)).argmax(dim=1).cpu()
            accuracy = (answers == test_verdicts).float().mean().item()
            engine.log(accuracy=accuracy)
            if trainer.global_rank == 0:
                print(f"step {step}: loss {loss.item():.3f}, {accuracy:.1%} of the test set")


if __name__ == "__main__":
    main()
