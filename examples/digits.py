"""Handwritten digits, with the accuracy on held-out images beside time and memory.

Real data that comes inside scikit-learn: 1,797 scans of 8 x 8 pixels. The seed is fixed, so runs in
fp32, fp16 and bf16 see the same images in the same order and can be compared.

    probe run examples/digits.py --fp32 --name digits-fp32
    probe run examples/digits.py --bf16 --name digits-bf16
    probe compare digits-fp32 digits-bf16
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import engine

TEST_IMAGES = 360


def load() -> tuple[TensorDataset, Tensor, Tensor]:
    """Images to train with, images to test with, and the digits on the latter."""
    pixels, digits = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).div(16).view(-1, 1, 8, 8)
    labels = torch.tensor(digits)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    training = TensorDataset(images[TEST_IMAGES:], labels[TEST_IMAGES:])
    return training, images[:TEST_IMAGES], labels[:TEST_IMAGES]


def convolutions(width: int) -> nn.Module:
    """Two convolutions and a layer that decides."""
    return nn.Sequential(
        nn.Conv2d(1, width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def main() -> None:
    """Train for some epochs; test after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    training, test_images, test_labels = load()
    model = convolutions(arguments.width)
    trainer, _, batches, _ = engine.initialize(
        model=model,
        model_parameters=model.parameters(),
        training_data=training,
        config={
            "train_batch_size": 64,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
            # With 16 bits the scale finds its place within the first epoch.
            "fp16": {"initial_scale_power": 14},
        },
    )
    test_images, test_labels = test_images.to(trainer.device), test_labels.to(trainer.device)
    for epoch in range(arguments.epochs):
        trainer.train()
        for images, labels in batches:
            scores = trainer(images.to(trainer.device))
            loss = functional.cross_entropy(scores.float(), labels.to(trainer.device))
            trainer.backward(loss)
            trainer.step()
        trainer.eval()
        with torch.no_grad():
            right = trainer(test_images).argmax(dim=1) == test_labels
        accuracy = right.float().mean().item()
        engine.log(accuracy=accuracy)
        if trainer.global_rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, {accuracy:.1%} of the test set")


if __name__ == "__main__":
    main()
