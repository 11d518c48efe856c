"""Keys of who holds what, and where: ZeRO and offload."""

from engine.config.key import Key, Kind

ZERO = "zero_optimization"
OFFLOAD_OPTIMIZER = f"{ZERO}.offload_optimizer"
OFFLOAD_PARAM = f"{ZERO}.offload_param"

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
