"""The loop of the PyTorch documentation on mixed precision, recorded: two lines were added.

The model, torch.autocast, GradScaler and the order of the calls are the documentation's own; no
engine trains here. The scale starts too high on purpose: the first steps overflow and are skipped.

    probe run --nproc 1 examples/amp_loop.py
    probe show latest
"""

import argparse

import torch
from torch import nn

import engine


def make_model(in_size: int, out_size: int, num_layers: int) -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for _ in range(num_layers - 1):
        layers += [nn.Linear(in_size, in_size), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(in_size, out_size))


def main() -> None:
    """Fit random targets for some epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--size", type=int, default=256)
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    size = arguments.size
    data = [torch.randn(64, size, device=device) for _ in range(20)]
    targets = [torch.randn(64, size, device=device) for _ in range(20)]
    net = make_model(size, size, num_layers=3).to(device)
    loss_fn = nn.MSELoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**26)

    watch = engine.watch(net, opt, scaler)  # added
    for _ in range(arguments.epochs):
        for inputs, target in zip(data, targets, strict=True):
            with torch.autocast(device_type=device, dtype=torch.float16):
                output = net(inputs)
                loss = loss_fn(output, target)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            watch.step(loss)  # added
            opt.zero_grad()
    print(f"loss {loss.item():.3f}, scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
