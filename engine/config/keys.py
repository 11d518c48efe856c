"""The one table of configuration keys that the engine takes: name, type, default, where it lands.

Names are DeepSpeed's. Parsing, unknown-name hints, the README's table and writing a `Config` back
all derive from here; `foreign.py` holds the keys of DeepSpeed that the engine does not have.
"""

from engine.config.key import Key, Kind
from engine.config.policies import AtMinimum, SameHost

ZERO = "zero_optimization"
OFFLOAD_OPTIMIZER = f"{ZERO}.offload_optimizer"
OFFLOAD_PARAM = f"{ZERO}.offload_param"

BATCH_KEYS = (
    Key(
        path="train_batch_size",
        kind=Kind.COUNT,
        least=1,
        lands="batch.train",
        meaning="samples per optimizer step over all ranks: micro × accumulation × world",
    ),
    Key(
        path="train_micro_batch_size_per_gpu",
        kind=Kind.COUNT,
        least=1,
        lands="batch.micro",
        meaning="samples per forward on one rank",
    ),
    Key(
        path="gradient_accumulation_steps",
        kind=Kind.COUNT,
        default=1,
        least=1,
        lands="batch.accumulation_steps",
        meaning="forwards per optimizer step",
    ),
)

GRADIENT_KEYS = (
    Key(
        path="gradient_clipping",
        kind=Kind.NUMBER,
        default=1.0,
        least=0,
        lands="clip_norm",
        meaning="global gradient norm to clip to, after unscaling; 0 is off",
    ),
    Key(
        path="prescale_gradients",
        kind=Kind.BOOL,
        default=False,
        lands="prescale_gradients",
        meaning="divide by the world size before the reduction instead of after it",
    ),
    Key(
        path="gradient_predivide_factor",
        kind=Kind.NUMBER,
        default=1.0,
        above=0,
        lands="predivide_factor",
        meaning="part of that division that is done before the reduction",
    ),
    Key(
        path="communication_data_type",
        kind=Kind.DTYPE,
        lands="precision.communication_dtype",
        meaning="type in which gradients are reduced; null is their own",
    ),
    Key(
        path="data_types.grad_accum_dtype",
        kind=Kind.DTYPE,
        lands="(precision.accumulate_in_fp32)",
        meaning="type in which micro-batches are summed: fp32, or null for that of the weights",
    ),
    Key(
        path="steps_per_print",
        kind=Kind.COUNT,
        least=1,
        endless=True,
        lands="steps_per_print",
        meaning="how often a line is printed; null is never",
    ),
)

PRECISION_KEYS = (
    Key(
        path="fp16.enabled",
        kind=Kind.BOOL,
        default=False,
        lands="(precision.precision)",
        meaning="fp16 weights over fp32 master weights, with loss scaling",
    ),
    Key(
        path="fp16.loss_scale",
        kind=Kind.NUMBER,
        default=0.0,
        least=0,
        lands="precision.loss_scale.static_scale",
        meaning="a fixed scale; 0 is dynamic",
    ),
    Key(
        path="fp16.initial_scale_power",
        kind=Kind.COUNT,
        default=16,
        least=0,
        most=127,
        lands="precision.loss_scale.initial_scale_power",
        meaning="the scale starts at 2 to this power",
    ),
    Key(
        path="fp16.loss_scale_window",
        kind=Kind.COUNT,
        default=1000,
        least=1,
        lands="precision.loss_scale.window_steps",
        meaning="good steps in a row between two doublings; 2000 under autocast and amp",
    ),
    Key(
        path="fp16.hysteresis",
        kind=Kind.COUNT,
        default=2,
        least=1,
        lands="precision.loss_scale.hysteresis",
        meaning="the overflow, counted from here, that halves the scale; 1 under autocast and amp",
    ),
    Key(
        path="fp16.consecutive_hysteresis",
        kind=Kind.BOOL,
        default=False,
        lands="precision.loss_scale.consecutive_hysteresis",
        meaning="every good step refills the hysteresis, not only a doubling",
    ),
    Key(
        path="fp16.min_loss_scale",
        kind=Kind.NUMBER,
        default=1.0,
        above=0,
        lands="precision.loss_scale.minimum_scale",
        meaning="the scale goes no lower",
    ),
    Key(
        path="fp16.at_minimum",
        kind=Kind.CHOICE,
        default="stop",
        choices=tuple(AtMinimum),
        members=AtMinimum,
        lands="precision.loss_scale.at_minimum",
        meaning="at an overflow there: stop with a diagnosis, or go on skipping (our own key)",
    ),
    Key(
        path="bf16.enabled",
        kind=Kind.BOOL,
        default=False,
        lands="(precision.precision)",
        meaning="bf16 weights over fp32 master weights, without loss scaling",
    ),
    Key(
        path="torch_autocast.enabled",
        kind=Kind.BOOL,
        default=False,
        lands="(precision.precision)",
        meaning="fp32 weights, 16-bit computation where torch.autocast sees fit",
    ),
    Key(
        path="torch_autocast.dtype",
        kind=Kind.DTYPE,
        default="bf16",
        lands="(precision.precision)",
        meaning="the 16-bit type; with fp16 the loss scale follows GradScaler's rule",
    ),
    Key(
        path="amp.enabled",
        kind=Kind.BOOL,
        default=False,
        lands="(precision.precision)",
        meaning="apex's levels, mapped to what this engine has",
    ),
    Key(
        path="amp.opt_level",
        kind=Kind.CHOICE,
        default="O1",
        choices=("O0", "O1", "O2", "O3"),
        lands="(precision.precision)",
        meaning="O0 fp32, O1 autocast in fp16, O2 fp16, O3 fp16 with a static scale",
    ),
    Key(
        path="amp.loss_scale",
        kind=Kind.NUMBER,
        default="dynamic",
        above=0,
        choices=("dynamic",),
        lands="(precision.loss_scale.static_scale)",
        meaning="apex's loss scale: a number, or dynamic",
    ),
)

ZERO_KEYS = (
    Key(
        path=f"{ZERO}.stage",
        kind=Kind.COUNT,
        default=0,
        least=0,
        most=3,
        lands="zero.stage",
        meaning="what is sharded: 1 optimizer states, 2 also gradients, 3 also parameters",
    ),
    Key(
        path=f"{ZERO}.reduce_bucket_size",
        kind=Kind.COUNT,
        default=500_000_000,
        least=1,
        lands="zero.reduce_bucket_elements",
        meaning="elements reduced at once",
    ),
    Key(
        path=f"{ZERO}.allgather_bucket_size",
        kind=Kind.COUNT,
        default=500_000_000,
        least=1,
        lands="zero.allgather_bucket_elements",
        meaning="elements gathered at once after the step, stages 1 and 2",
    ),
    Key(
        path=f"{ZERO}.overlap_comm",
        kind=Kind.BOOL,
        default=True,
        lands="zero.overlap_communication",
        meaning="reduce while backward goes on (DeepSpeed's own default is stage 3 only)",
    ),
    Key(
        path=f"{ZERO}.stage3_prefetch_bucket_size",
        kind=Kind.COUNT,
        default=50_000_000,
        least=0,
        lands="zero.prefetch_elements",
        meaning="elements gathered ahead of use, stage 3",
    ),
    Key(
        path=f"{ZERO}.stage3_param_persistence_threshold",
        kind=Kind.COUNT,
        default=100_000,
        least=0,
        lands="zero.persistence_threshold_elements",
        meaning="parameters up to this size stay gathered, stage 3",
    ),
    Key(
        path=f"{ZERO}.stage3_max_live_parameters",
        kind=Kind.COUNT,
        default=1_000_000_000,
        least=0,
        lands="zero.max_live_elements",
        meaning="elements gathered at any time, stage 3",
    ),
    Key(
        path=f"{ZERO}.sub_group_size",
        kind=Kind.COUNT,
        default=1_000_000_000,
        least=1,
        lands="zero.sub_group_elements",
        meaning="elements updated at once",
    ),
    Key(
        path=f"{ZERO}.stage3_gather_16bit_weights_on_model_save",
        kind=Kind.BOOL,
        default=False,
        lands="zero.gather_16bit_weights_on_save",
        meaning="a saved model holds whole 16-bit weights, stage 3",
    ),
)

OFFLOAD_KEYS = (
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.device",
        kind=Kind.TIER,
        default="none",
        lands="offload_optimizer.tier",
        meaning="where master weights and optimizer states rest: stages 1 to 3",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.nvme_path",
        kind=Kind.TEXT,
        lands="offload_optimizer.disk_path",
        meaning="folder for them when the device is nvme",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.pin_memory",
        kind=Kind.BOOL,
        default=True,
        lands="offload_optimizer.pin_memory",
        meaning="page-locked host memory",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.buffer_count",
        kind=Kind.COUNT,
        default=4,
        least=1,
        lands="offload_optimizer.buffer_count",
        meaning="host buffers between disk and device",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.pipeline_read",
        kind=Kind.BOOL,
        default=False,
        lands="offload_optimizer.pipeline_read",
        meaning="read the next tile while one is updated",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.pipeline_write",
        kind=Kind.BOOL,
        default=False,
        lands="offload_optimizer.pipeline_write",
        meaning="write a tile back while the next is updated",
    ),
    Key(
        path=f"{OFFLOAD_OPTIMIZER}.ratio",
        kind=Kind.NUMBER,
        default=1.0,
        least=0,
        most=1,
        lands="offload_optimizer.ratio",
        meaning="share of the tiles that is offloaded, stage 3",
    ),
    Key(
        path=f"{OFFLOAD_PARAM}.device",
        kind=Kind.TIER,
        default="none",
        lands="offload_params.tier",
        meaning="where 16-bit parameter shards rest: stage 3",
    ),
    Key(
        path=f"{OFFLOAD_PARAM}.nvme_path",
        kind=Kind.TEXT,
        lands="offload_params.disk_path",
        meaning="folder for them when the device is nvme",
    ),
    Key(
        path=f"{OFFLOAD_PARAM}.pin_memory",
        kind=Kind.BOOL,
        default=True,
        lands="offload_params.pin_memory",
        meaning="page-locked host memory",
    ),
    Key(
        path=f"{OFFLOAD_PARAM}.buffer_count",
        kind=Kind.COUNT,
        default=5,
        least=1,
        lands="offload_params.buffer_count",
        meaning="host buffers between disk and device",
    ),
    Key(
        path=f"{OFFLOAD_PARAM}.buffer_size",
        kind=Kind.COUNT,
        default=100_000_000,
        least=1,
        lands="offload_params.buffer_elements",
        meaning="elements of one such buffer",
    ),
)

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
