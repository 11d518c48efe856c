"""A small GPT on characters, in plain PyTorch: the script to copy.

python train.py                              # one process
probe run train.py --stage 3 --bf16          # recorded, on several ranks
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

import engine

TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, and what is the use of a book, thought Alice, without "
    "pictures or conversations? So she was considering in her own mind, as well as she could, for "
    "the hot day made her feel very sleepy and stupid, whether the pleasure of making a daisy "
    "chain would be worth the trouble of getting up and picking the daisies, when suddenly a White "
    "Rabbit with pink eyes ran close by her. "
) * 20


class Block(nn.Module):
    """Attention and a feed-forward layer, each on a residual path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.attention_in(self.before_attention(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class CharacterGPT(nn.Module):
    """Predicts the next character."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, characters: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(characters.shape[1], device=characters.device)
        x = self.tokens(characters) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last_norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def main() -> None:
    """Train for a number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="samples a rank and micro-batch")
    parser.add_argument("--length", type=int, default=128)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    text = torch.tensor([letters.index(letter) for letter in TEXT])
    model = CharacterGPT(
        len(letters), arguments.width, arguments.layers, heads=4, length=arguments.length
    )
    trainer, _, _, _ = engine.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": arguments.batch,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "gradient_clipping": 1.0,
        },
    )
    chance = torch.Generator().manual_seed(trainer.global_rank)
    trainer.remember(chance=chance)  # with --resume it goes on where it was saved
    micro_steps = arguments.steps * trainer.gradient_accumulation_steps()
    loss = torch.tensor(float("nan"))
    for _ in range(trainer.micro_steps, micro_steps):
        starts = torch.randint(
            len(text) - arguments.length - 1, (arguments.batch,), generator=chance
        )
        windows = torch.stack([text[start : start + arguments.length + 1] for start in starts])
        windows = windows.to(trainer.device)
        loss = trainer(windows[:, :-1], windows[:, 1:])
        trainer.backward(loss)
        trainer.step()
    if trainer.global_rank == 0:
        print(f"loss {loss.item():.3f} after {trainer.global_steps} steps")


if __name__ == "__main__":
    main()
