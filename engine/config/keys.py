"""The one table of configuration keys that the engine takes: name, type, default, where it lands.

Names are DeepSpeed's. Parsing, unknown-name hints, the README's table and writing a `Config` back
all derive from here; `training_keys.py` and `sharding_keys.py` hold its longest parts, `foreign.py`
the keys of DeepSpeed that the engine does not have.
"""

from engine.config.key import Key, Kind
from engine.config.policies import SameHost
from engine.config.sharding_keys import (
    OFFLOAD_KEYS,
    OFFLOAD_OPTIMIZER,
    OFFLOAD_PARAM,
    ZERO,
    ZERO_KEYS,
)
from engine.config.training_keys import BATCH_KEYS, GRADIENT_KEYS, PRECISION_KEYS

CHECKPOINT_KEYS = (
    Key(
        path="checkpoint.dir",
        kind=Kind.TEXT,
        lands="checkpoint.folder",
        meaning="folder for checkpoints; null is the run's own (our own key, as all of this block)",
    ),
    Key(
        path="checkpoint.every_steps",
        kind=Kind.COUNT,
        default=0,
        least=0,
        lands="checkpoint.every_steps",
        meaning="save after every so many steps; 0 is never",
    ),
    Key(
        path="checkpoint.keep_last",
        kind=Kind.COUNT,
        default=0,
        least=0,
        lands="checkpoint.keep_last",
        meaning="remove older ones without a name of their own; 0 keeps all",
    ),
    Key(
        path="checkpoint.asynchronous",
        kind=Kind.BOOL,
        default=False,
        lands="checkpoint.asynchronous",
        meaning="write from a copy on the host while training goes on",
    ),
    Key(
        path="checkpoint.resume",
        kind=Kind.TEXT,
        lands="checkpoint.resume",
        meaning='where to go on from: a path, or the "latest" of checkpoint.dir if there is one',
    ),
)

OTHER_KEYS = (
    Key(
        path="communication.same_host",
        kind=Kind.CHOICE,
        default="memory",
        choices=tuple(SameHost),
        members=SameHost,
        lands="same_host",
        meaning="ranks of one host read each other's memory, or use sockets (our own key)",
    ),
    Key(
        path="activation_checkpointing.every_block",
        kind=Kind.COUNT,
        default=0,
        least=0,
        lands="activations.every_block",
        meaning="compute every k-th block again in backward; 0 is none (our own key)",
    ),
    Key(
        path="activation_checkpointing.cpu_checkpointing",
        kind=Kind.BOOL,
        default=False,
        lands="activations.offload_to_host",
        meaning="the inputs of those blocks rest on the host",
    ),
    Key(
        path="optimizer.type",
        kind=Kind.TEXT,
        lands="(optimizer.type)",
        meaning="Adam, AdamW, SGD, Adagrad or Lion; others are passed to initialize()",
    ),
    Key(
        path="scheduler.type",
        kind=Kind.TEXT,
        lands="(schedule.type)",
        meaning="one of DeepSpeed's five, or a name in torch.optim.lr_scheduler",
    ),
)

KEYS = {
    key.path: key
    for key in (
        *BATCH_KEYS,
        *GRADIENT_KEYS,
        *PRECISION_KEYS,
        *ZERO_KEYS,
        *OFFLOAD_KEYS,
        *CHECKPOINT_KEYS,
        *OTHER_KEYS,
    )
}

FREE = {"optimizer.params": "(optimizer.params)", "scheduler.params": "(schedule.params)"}
"""Blocks whose keys depend on the type beside them, and where they land."""

ALIASES = {
    "bfloat16": "bf16",
    **{
        f"{ZERO}.{name}": f"{ZERO}.stage3_{name}"
        for name in (
            "prefetch_bucket_size",
            "param_persistence_threshold",
            "model_persistence_threshold",
            "max_live_parameters",
            "max_reuse_distance",
            "gather_16bit_weights_on_model_save",
            "module_granularity_threshold",
            "use_all_reduce_for_fetch_params",
            "allgather_sequential",
        )
    },
    f"{ZERO}.stage3_gather_fp16_weights_on_model_save": (
        f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    ),
}
"""Other names that DeepSpeed has, or had, for the same thing."""

OLD_SWITCHES = {
    f"{ZERO}.cpu_offload": f"{OFFLOAD_OPTIMIZER}.device",
    f"{ZERO}.cpu_offload_param": f"{OFFLOAD_PARAM}.device",
}
"""Switches of an older DeepSpeed: true is the device cpu."""

BLOCKS = {path.rsplit(".", 1)[0] for path in (*KEYS, *FREE) if "." in path} | {ZERO}
