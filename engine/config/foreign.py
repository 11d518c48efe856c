"""Keys that DeepSpeed has and this engine has not, and what is done instead.

A key is quiet where its value is what happens here anyhow. Elsewhere it is a note if leaving it
out changes no number of the training, and a fault if it does: nobody should find out from a loss
curve that a line of the configuration was not obeyed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.config.sharding_keys import OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, ZERO


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """One key, or a whole block, that is not here."""

    path: str
    instead: str
    quiet_at: tuple[Any, ...] = ()
    changes_result: bool = False

    def is_quiet(self, value: Any) -> bool:
        if value is None or value in self.quiet_at:
            return True
        if isinstance(value, str):
            words = {"true": True, "false": False}
            return words.get(value.lower(), value) in self.quiet_at
        return isinstance(value, Mapping) and (
            not value or str(value.get("enabled", True)).lower() == "false"
        )


def _harmless(instead: str, *paths: str, quiet_at: tuple[Any, ...] = (False,)) -> list[Foreign]:
    return [Foreign(path=path, instead=instead, quiet_at=quiet_at) for path in paths]


def _refused(instead: str, *paths: str, quiet_at: tuple[Any, ...] = (False,)) -> list[Foreign]:
    return [
        Foreign(path=path, instead=instead, quiet_at=quiet_at, changes_result=True)
        for path in paths
    ]


RECORDED = "the run directory records this in every run; probe shows it"
CURVES = "the curves are in the run directory"
CHECKPOINTS = "checkpoints load at any stage and world size without such a choice"
LAYOUT = "it changes speed or memory only; the engine lays out its buffers itself"
LOWER_MASTER = "master weights and optimizer states are always fp32; leave it out"
COMPRESSED = "collectives carry full values; leave it out or stay with DeepSpeed"
CURRICULUM = "the engine takes batches as the script gives them; shape them in the data loader"
NO_MODEL_PARALLEL = "ranks are data-parallel only; leave it out"

FOREIGN: Mapping[str, Foreign] = {
    key.path: key
    for key in (
        # What DeepSpeed prints and logs
        *_harmless(
            RECORDED,
            "wall_clock_breakdown",
            "memory_breakdown",
            "dump_state",
            "comms_logger",
            "timers",
        ),
        *_harmless("use --profile-steps for a window of torch.profiler", "flops_profiler"),
        *_harmless(CURVES, "tensorboard", "wandb", "csv_monitor", "comet"),
        *_harmless("Python's own logging decides", "log_level", quiet_at=()),
        *_harmless("try settings in runs of their own and use probe compare", "autotuning"),
        # Checkpoints and storage
        *_harmless(
            CHECKPOINTS,
            "checkpoint.tag_validation",
            "checkpoint.load_universal",
            "checkpoint.use_node_local_storage",
            "checkpoint.parallel_write",
            "nebula",
            "datastates_ckpt",
            f"{ZERO}.elastic_checkpoint",
        ),
        *_harmless(CHECKPOINTS, f"{ZERO}.load_from_fp32_weights", quiet_at=(True,)),
        *_harmless(CHECKPOINTS, f"{ZERO}.pipeline_loading_checkpoint"),
        *_harmless("disk offload sizes its own reads and writes", "aio", quiet_at=()),
        # Layout and speed
        *_harmless(
            LAYOUT,
            "disable_allgather",
            "sparse_gradients",
            "graph_harvesting",
            "use_data_before_expert_parallelism",
            "disable_python_gc",
            f"{ZERO}.round_robin_gradients",
            f"{ZERO}.legacy_stage1",
            f"{ZERO}.parameter_alignment",
            f"{ZERO}.stage3_use_all_reduce_for_fetch_params",
            f"{ZERO}.stage3_allgather_sequential",
            f"{ZERO}.mics_hierarchical_params_gather",
            f"{ZERO}.log_trace_cache_warnings",
            f"{ZERO}.enable_sanity_checks",
            f"{ZERO}.save_muon_momentum_buffer_in_memory",
            "bf16.immediate_grad_update",
            "optimizer.legacy_fusion",
        ),
        *_harmless(
            LAYOUT,
            f"{ZERO}.contiguous_gradients",
            f"{ZERO}.reduce_scatter",
            f"{ZERO}.allgather_partitions",
            f"{ZERO}.use_multi_rank_bucket_allreduce",
            f"{ZERO}.memory_efficient_linear",
            f"{ZERO}.override_module_apply",
            quiet_at=(True,),
        ),
        *_harmless(LAYOUT, f"{ZERO}.zero_hpz_partition_size", quiet_at=(0, 1)),
        *_harmless(LAYOUT, f"{ZERO}.mics_shard_size", quiet_at=(-1,)),
        *_harmless(
            LAYOUT,
            "vocabulary_size",
            "compile",
            "seq_parallel_communication_data_type",
            quiet_at=(),
        ),
        *_harmless(
            "the traced order of use decides what stays gathered",
            f"{ZERO}.stage3_max_reuse_distance",
            quiet_at=(1_000_000_000,),
        ),
        *_harmless(
            "stage3_param_persistence_threshold alone decides what stays gathered",
            f"{ZERO}.stage3_model_persistence_threshold",
            quiet_at=(),
        ),
        *_harmless(
            "the unit of gathering is a block of the model",
            f"{ZERO}.stage3_module_granularity_threshold",
            f"{ZERO}.leaf_module",
            quiet_at=(0,),
        ),
        *_harmless(
            "the optimizer's update is one fused pass, wherever the states rest",
            f"{OFFLOAD_OPTIMIZER}.fast_init",
            f"{OFFLOAD_OPTIMIZER}.super_offload",
            "zero_force_ds_cpu_optimizer",
            f"{ZERO}.cpu_offload_use_pin_memory",
            quiet_at=(False, True),
        ),
        *_harmless(
            "OMP_NUM_THREADS decides", f"{OFFLOAD_OPTIMIZER}.cpuadam_cores_perc", quiet_at=(0.8,)
        ),
        *_harmless(
            "what does not fit the host buffers stays on disk",
            f"{OFFLOAD_PARAM}.max_in_cpu",
            quiet_at=(1_000_000_000,),
        ),
        # What is always so here
        *_harmless(
            "every element-wise optimizer is allowed, any other is refused",
            "zero_allow_untested_optimizer",
            quiet_at=(False, True),
        ),
        *_harmless(
            "unused parameters are always allowed",
            f"{ZERO}.ignore_unused_parameters",
            quiet_at=(True,),
        ),
        *_harmless(
            "the norm travels with the finite check", f"{ZERO}.compute_grad_norm", quiet_at=(True,)
        ),
        *_harmless(
            "inputs are always cast to the type of the weights",
            "fp16.auto_cast",
            quiet_at=(False, True),
        ),
        *_harmless(
            "gradients are checked in every precision", "bf16.check_grad_overflow", quiet_at=(True,)
        ),
        *_harmless(
            "gradients are fp32 under autocast; communication_data_type says how they travel",
            "torch_autocast.lower_precision_safe_modules",
        ),
        *_harmless(
            "what is kept for backward is kept whole on each rank",
            "activation_checkpointing.partition_activations",
            "activation_checkpointing.contiguous_memory_optimization",
            "activation_checkpointing.synchronize_checkpoint_boundary",
            "activation_checkpointing.profile",
        ),
        *_harmless(
            "activation_checkpointing.every_block says which blocks are computed again",
            "activation_checkpointing.number_checkpoints",
            quiet_at=(),
        ),
        # What would change the numbers
        *_refused(
            LOWER_MASTER,
            "fp16.fp16_master_weights_and_grads",
            "bf16.bf16_master_weights_and_grads",
            "bf16.bf16_optimizer_states",
        ),
        *_refused(
            COMPRESSED,
            f"{ZERO}.zero_quantized_weights",
            f"{ZERO}.zero_quantized_nontrainable_weights",
            f"{ZERO}.zero_quantized_gradients",
            f"{ZERO}.zeropp_loco_param",
        ),
        *_refused("the update is never late; leave it out", f"{ZERO}.zenflow"),
        *_refused(
            "gradients are averaged; multiply the loss by the world size for a sum",
            "gradient_allreduce_op",
            quiet_at=("mean",),
        ),
        *_refused(
            "the engine counts the micro-batches; step() is the boundary only when they are full",
            "managed_gradient_accumulation",
            quiet_at=(True,),
        ),
        *_refused("pass a DataLoader with drop_last=True", "dataloader_drop_last"),
        *_refused(
            "cast the model before initialize()",
            "data_types.param_dtype",
            "data_types.buffer_dtype",
            quiet_at=(),
        ),
        *_refused(
            "buffers keep the type that they have",
            "data_types.keep_in_fp32_modules",
            quiet_at=("auto",),
        ),
        *_refused(CURRICULUM, "curriculum_learning", "data_efficiency", "progressive_layer_drop"),
        *_refused(
            NO_MODEL_PARALLEL,
            "tensor_parallel",
            "expert_parallel",
            "pipeline",
            "hybrid_engine",
            quiet_at=(False,),
        ),
        *_refused(NO_MODEL_PARALLEL, "sequence_parallel_size", quiet_at=(1,)),
        *_refused("the world size is fixed for a run; set the batch sizes directly", "elasticity"),
        *_refused(
            "weights are trained as they are; leave it out",
            "compression_training",
            "quantize_training",
            "weight_quantization",
            "eigenvalue",
            "sparse_attention",
        ),
    )
}
