"""An Accelerate YAML, turned into the blocks of DeepSpeed that its plugin stands for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from engine.config.nearest import unknown
from engine.config.paths import flat, put
from engine.config.values import AUTO, shown

PLUGIN = {
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
}
"""Keys of the plugin and the paths that they set."""

DEFAULT_STAGE = 2
"""Accelerate's, where its plugin is on and no stage is given."""

FILE = "deepspeed_config_file"
PLUGIN_LAUNCH = frozenset(
    {
        "zero3_init_flag",
        "is_train_batch_min",
        "deepspeed_hostfile",
        "deepspeed_multinode_launcher",
        "deepspeed_exclusion_filter",
        "deepspeed_inclusion_filter",
        "deepspeed_moe_layer_cls_names",
        "transformer_moe_cls_names",
        "msamp_opt_level",
    }
)
"""Keys of the plugin that concern how processes start or models are made, not the training."""

LAUNCH = frozenset(
    {
        "compute_environment",
        "debug",
        "use_cpu",
        "num_processes",
        "num_machines",
        "machine_rank",
        "gpu_ids",
        "main_process_ip",
        "main_process_port",
        "rdzv_backend",
        "same_network",
        "main_training_function",
        "enable_cpu_affinity",
        "mpirun_config",
        "downcast_bf16",
        "tpu_env",
        "tpu_name",
        "tpu_zone",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "tpu_vm",
        "command_file",
        "commands",
        "fp8_config",
    }
)
"""Keys beside the plugin that concern the same."""

OTHER_ENGINES = ("fsdp_config", "megatron_lm_config", "parallelism_config")
DTYPE_BLOCKS = ("fp16", "bf16")
PLAIN = ("NO", "FALSE", "MULTI_GPU", "MULTI_CPU", "DEEPSPEED")
"""Ways to start processes that say nothing of another engine; YAML reads a bare NO as false."""

KNOWN = (
    LAUNCH
    | set(OTHER_ENGINES)
    | {
        "deepspeed_config",
        "distributed_type",
        "mixed_precision",
        "dynamo_config",
    }
)


@dataclass(kw_only=True)
class Accelerate:
    """What a YAML says, in blocks of DeepSpeed, and what there is to say about it."""

    blocks: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mixed_precision: str | None = None
    config_file: str | None = None
    """As it stands there, relative to the YAML."""


def parse_accelerate(text: str, world_size: int) -> Accelerate:
    """The plugin's keys as blocks; the file that it may name is merged in by `merge_file`."""
    read = Accelerate()
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        read.faults.append(f"cannot be read as YAML: {' '.join(str(error).split())}")
        return read
    if not isinstance(document, Mapping):
        read.faults.append(f"must be a block of keys, not {shown(document)}")
        return read
    for name, value in document.items():
        _read_top(read, str(name), value)
    processes = document.get("num_processes")
    if isinstance(processes, int) and processes not in (world_size, -1):
        read.notes.append(
            f"num_processes {processes} is a matter of the launcher: this run has {world_size}"
        )
    plugin = document.get("deepspeed_config")
    if plugin:
        _read_plugin(read, plugin)
    _read_precision(read, document.get("mixed_precision"))
    return read


def merge_file(read: Accelerate, blocks: dict[str, Any]) -> dict[str, Any]:
    """The DeepSpeed file with the plugin's values where it says "auto" or nothing."""
    merged = dict(blocks)
    for path, value in flat(read.blocks):
        _merge_one(read, merged, path, value)
    if read.mixed_precision is not None:
        _merge_precision(read, merged, read.mixed_precision)
    return merged


def _read_top(read: Accelerate, name: str, value: Any) -> None:
    if name not in KNOWN:
        read.faults.append(unknown("key", name, KNOWN))
    elif name in OTHER_ENGINES and value:
        read.faults.append(f"{name} is for another engine; write a deepspeed_config")
    elif name == "distributed_type" and str(value).upper() not in PLAIN:
        read.faults.append(f"distributed_type {shown(value)} is another engine; use DEEPSPEED")
    elif name == "dynamo_config" and value:
        read.notes.append("dynamo_config is not read: compile the model in the script")


def _read_plugin(read: Accelerate, plugin: Any) -> None:
    if not isinstance(plugin, Mapping):
        read.faults.append(f"deepspeed_config must be a block of keys, not {shown(plugin)}")
        return
    for raw_name, value in plugin.items():
        name = str(raw_name)
        if name == FILE:
            if isinstance(value, str) and value != "none":
                read.config_file = value
        elif name in PLUGIN:
            if value is not None and not (name.endswith("nvme_path") and value == "none"):
                put(read.blocks, PLUGIN[name], value)
        elif name == "enable_msamp":
            if value:
                read.faults.append("enable_msamp is not here: the narrowest precision is 16 bit")
        elif name not in PLUGIN_LAUNCH:
            read.faults.append(
                unknown("deepspeed_config key", name, {*PLUGIN, *PLUGIN_LAUNCH, FILE})
            )
    if read.config_file is None and "zero_stage" not in plugin:
        put(read.blocks, PLUGIN["zero_stage"], DEFAULT_STAGE)


def _read_precision(read: Accelerate, raw: Any) -> None:
    if raw is None:
        return
    word = "no" if raw is False else str(raw).lower()  # YAML reads `no` as false
    if word not in ("no", *DTYPE_BLOCKS):
        read.faults.append(f"mixed_precision {shown(raw)} is not here: no, fp16 or bf16")
        return
    read.mixed_precision = word
    if word != "no" and read.config_file is None:
        read.blocks[word] = {"enabled": True}


def _merge_one(read: Accelerate, blocks: dict[str, Any], path: str, value: Any) -> None:
    *parents, leaf = path.split(".")
    for parent in parents:
        inner = blocks.get(parent)
        if inner is not None and not isinstance(inner, Mapping):
            return  # the file's own fault, named when it is read
        blocks[parent] = dict(inner or {})
        blocks = blocks[parent]
    theirs = blocks.get(leaf)
    if theirs is None or theirs == AUTO:
        blocks[leaf] = value
    elif str(theirs).lower() != str(value).lower() and theirs != value:
        read.faults.append(
            f"{path} is {shown(value)} in deepspeed_config and {shown(theirs)} in its file"
        )


def _merge_precision(read: Accelerate, blocks: dict[str, Any], word: str) -> None:
    """mixed_precision fills "auto", turns its own block on, and must not meet the other one on."""
    for name in DTYPE_BLOCKS:
        block = blocks.get(name, {})
        if not isinstance(block, Mapping):
            continue  # the file's own fault, named when it is read
        wanted = name == word
        enabled = block.get("enabled")
        if enabled == AUTO or (enabled is None and wanted):
            blocks[name] = {**block, "enabled": wanted}
        elif word != "no" and str(enabled).lower() == str(not wanted).lower():
            read.faults.append(
                f"mixed_precision is {word}, but {name}.enabled is {shown(enabled)} in {FILE}"
            )


def beside(yaml_path: Path, name: str) -> Path:
    """A file named in a YAML, found from where the YAML lies."""
    return yaml_path.parent / Path(name).expanduser()
