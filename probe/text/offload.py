"""What rests off the device and where, in one word where one is enough."""

from probe.schema.vocabulary import Tier
from probe.units import MISSING


def offload_words(*, optimizer: Tier, params: Tier) -> str:
    """–, opt host, par disk, all host or mixed."""
    if optimizer is params is Tier.DEVICE:
        return MISSING
    if params is Tier.DEVICE:
        return f"opt {optimizer}"
    if optimizer is Tier.DEVICE:
        return f"par {params}"
    return f"all {params}" if optimizer is params else "mixed"
