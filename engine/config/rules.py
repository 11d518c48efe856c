"""What must hold between keys: contradictions are named with both values."""

from engine.config.reading import Reading
from engine.config.sharding_keys import OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, ZERO
from engine.config.values import written
from probe.schema.vocabulary import Tier


def check_rules(reading: Reading) -> None:
    """Name every pair of values that cannot both be meant."""
    stage = reading.values.get(f"{ZERO}.stage", 0)
    _check_offload(reading, stage, OFFLOAD_PARAM, 3, "parameters are sharded from stage 3 on")
    _check_offload(
        reading, stage, OFFLOAD_OPTIMIZER, 1, "optimizer states are sharded from stage 1 on"
    )
    ratio = reading.values.get(f"{OFFLOAD_OPTIMIZER}.ratio", 1.0)
    if ratio < 1 and stage != 3:
        reading.faults.append(
            f"{OFFLOAD_OPTIMIZER}.ratio {ratio:g} needs stage 3, but {ZERO}.stage is {stage}"
        )
    predivide = reading.values.get("gradient_predivide_factor", 1.0)
    if predivide != 1 and reading.on("prescale_gradients"):
        reading.notes.append(
            f"gradient_predivide_factor {predivide:g} has no part in it where prescale_gradients"
            " is true: all is divided before the reduction"
        )
    if reading.on("activation_checkpointing.cpu_checkpointing") and not reading.values.get(
        "activation_checkpointing.every_block"
    ):
        reading.notes.append(
            "activation_checkpointing.cpu_checkpointing concerns blocks that the engine computes"
            " again, which activation_checkpointing.every_block turns on"
        )


def _check_offload(reading: Reading, stage: int, block: str, needs: int, reason: str) -> None:
    device = reading.values.get(f"{block}.device", Tier.DEVICE)
    if device is Tier.DEVICE:
        return
    if stage < needs:
        reading.faults.append(
            f"{block}.device {written(device)} does not go with {ZERO}.stage {stage}: {reason}"
        )
    if device is Tier.DISK and f"{block}.nvme_path" not in reading.values:
        reading.faults.append(
            f'{block}.device "nvme" needs {block}.nvme_path, a folder; or give --offload-path'
        )
