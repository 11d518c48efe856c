"""The contestants: one file each, all behind `build(model, setting)`; see `protocol`.

A contestant's libraries are imported only in its own processes, so one that is not installed
stops nobody else.
"""

from dataclasses import replace
from importlib import import_module

from benchmarks.peers.protocol import Build

MODULES = {
    "zeroprobe": "benchmarks.peers.zeroprobe",
    "zeroprobe_recorded": "benchmarks.peers.zeroprobe_recorded",
    "deepspeed": "benchmarks.peers.deepspeed",
    "deepspeed_repaired": "benchmarks.peers.deepspeed_repaired",
    "ddp": "benchmarks.peers.ddp",
    "ddp_zero": "benchmarks.peers.ddp_zero",
    "fsdp2": "benchmarks.peers.fsdp2",
    "bound": "benchmarks.peers.bound",
}
"""Contestant to module; imported by name so that each process loads one."""

MATCHING_PEER = {0: "ddp", 1: "ddp_zero", 2: "fsdp2", 3: "fsdp2"}
"""What PyTorch itself offers for each ZeRO stage."""


def load_build(contestant: str) -> Build:
    """Import one contestant and return its `build`; "name@offload" is that one with an offload."""
    name, _, offload = contestant.partition("@")
    build: Build = import_module(MODULES[name]).build
    if not offload:
        return build
    return lambda model, setting: build(model, replace(setting, offload=offload))
