"""A script written for DeepSpeed: only its import was changed.

probe run examples/deepspeed_script.py --deepspeed_config examples/configs/zero2_fp16.json
probe run --config examples/configs/zero3_bf16.json examples/deepspeed_script.py
probe run --config examples/configs/accelerate_zero2.yaml examples/deepspeed_script.py
"""

import argparse

import torch
from torch import nn

import engine as deepspeed  # was: import deepspeed


def add_arguments() -> argparse.Namespace:
    """The arguments of the script and those of the launcher."""
    parser = argparse.ArgumentParser(description="Recognises which of ten patterns was shown.")
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--steps", type=int, default=40)
    parser = deepspeed.add_config_arguments(parser)
    return parser.parse_args()


class Patterns(torch.utils.data.Dataset):
    """Noisy copies of ten patterns."""

    def __init__(self, samples: int) -> None:
        chance = torch.Generator().manual_seed(0)
        self.labels = torch.randint(10, (samples,), generator=chance)
        patterns = torch.randn(10, 64, generator=chance)
        noise = torch.randn(samples, 64, generator=chance)
        self.inputs = patterns[self.labels] + 0.5 * noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.labels[index]


args = add_arguments()
deepspeed.init_distributed()
torch.manual_seed(0)
net = nn.Sequential(
    nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
)
model_engine, optimizer, train_loader, lr_scheduler = deepspeed.initialize(
    args=args, model=net, model_parameters=net.parameters(), training_data=Patterns(16384)
)
criterion = nn.CrossEntropyLoss()
weight_dtype = next(net.parameters()).dtype

for step, (inputs, labels) in enumerate(train_loader):
    if model_engine.global_steps >= args.steps:
        break
    inputs = inputs.to(model_engine.device, weight_dtype)
    labels = labels.to(model_engine.device)
    loss = criterion(model_engine(inputs), labels)
    model_engine.backward(loss)
    model_engine.step()
    if step % 10 == 0 and model_engine.local_rank in (-1, 0):
        print(f"step {step}: loss {loss.item():.3f}, lr {model_engine.get_lr()[0]:g}")

if torch.distributed.get_rank() == 0:
    print(f"{model_engine.global_steps} steps, {model_engine.skipped_steps} skipped")
torch.distributed.destroy_process_group()
