"""The instrumented engine: mixed precision and ZeRO 0-3 behind DeepSpeed's call signature."""

from engine.engine import Engine
from engine.facts import Observer
from engine.familiar import add_config_arguments, init_distributed
from engine.initialize import initialize
from engine.remarks import annotate, log
from engine.sharded_init import sharded_init
from engine.watch import Watch, watch

__all__ = [
    "Engine",
    "Observer",
    "Watch",
    "add_config_arguments",
    "annotate",
    "init_distributed",
    "initialize",
    "log",
    "sharded_init",
    "watch",
]
