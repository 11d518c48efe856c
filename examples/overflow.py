"""A run that overflows by design: which parameter, on which rank, in which micro-batch, and why?

A network gets a new sensor. Its weights start at zero, so predictions stay what they were. But on
rank 1 the sensor sends, now and then in the second micro-batch of a step, a value far out of range.
Nothing is wrong with the loss; the gradient of the new weights is error x input x loss scale, and
that is more than fp16 can hold.

    probe run examples/overflow.py --nproc 2
    probe show latest
"""

import argparse

import torch
from torch import Tensor, nn

import engine

BROKEN_RANK, BROKEN_MICRO_BATCH, BROKEN_EVERY_STEPS = 1, 1, 25
BROKEN_VALUE = 60_000.0  # fp16 ends at 65,504.


class WithNewSensor(nn.Module):
    """A network that worked, and a sensor that was put beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.known = nn.Linear(16, 64)
        self.sensor = nn.Linear(1, 64, bias=False)
        self.head = nn.Linear(64, 1)
        nn.init.zeros_(self.sensor.weight)

    def forward(self, inputs: Tensor, measured: Tensor) -> Tensor:
        outputs: Tensor = self.head(torch.relu(self.known(inputs) + self.sensor(measured)))
        return outputs


def main() -> None:
    """Train in fp16 with two micro-batches a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = WithNewSensor()
    trainer, _, _, _ = engine.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 16,
            "gradient_accumulation_steps": 2,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "gradient_clipping": 0,
            "fp16": {"enabled": True, "initial_scale_power": 12},
            "zero_optimization": {"stage": 2},
        },
    )
    chance = torch.Generator().manual_seed(trainer.global_rank)
    for step in range(arguments.steps):
        for micro_batch in range(2):
            inputs = torch.randn(16, 16, generator=chance)
            targets = inputs[:, :4].sum(dim=1, keepdim=True)
            measured = torch.zeros(16, 1)
            if (
                trainer.global_rank == BROKEN_RANK
                and micro_batch == BROKEN_MICRO_BATCH
                and step % BROKEN_EVERY_STEPS == BROKEN_EVERY_STEPS - 1
            ):
                measured[3] = BROKEN_VALUE
            outputs = trainer(inputs.to(trainer.device), measured.to(trainer.device))
            loss = (outputs.float() - targets.to(trainer.device)).square().mean()
            trainer.backward(loss)
            trainer.step()
    if trainer.global_rank == 0:
        print(f"loss {loss.item():.3f}, {trainer.skipped_steps} steps skipped")


if __name__ == "__main__":
    main()
