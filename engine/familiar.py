"""What a DeepSpeed script calls beside `initialize`, so that changing its import is enough."""

import argparse
from typing import Any

from engine.collectives import meet


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `--deepspeed` and `--deepspeed_config FILE`, which `initialize(args=...)` reads."""
    group = parser.add_argument_group("configuration")
    group.add_argument("--deepspeed", action="store_true", help="accepted; there is one engine")
    group.add_argument("--deepspeed_config", metavar="FILE", help="DeepSpeed JSON, Accelerate YAML")
    return parser


def init_distributed(
    dist_backend: str | None = None, *args: Any, distributed_port: int = 29500, **kwargs: Any
) -> None:
    """Join the process group; the backend follows from the devices, as everywhere here."""
    del dist_backend, args, kwargs
    meet(port=distributed_port)
