"""The instrumented engine: mixed precision and ZeRO 0-3 behind DeepSpeed's call signature."""

from engine.engine import Engine
from engine.facts import Observer
from engine.initialize import initialize
from engine.remarks import annotate, log
from engine.sharded_init import sharded_init

__all__ = ["Engine", "Observer", "annotate", "initialize", "log", "sharded_init"]
