"""What a run was set to do with its loss scale; the rules on precision share this."""

from probe.schema.documents import Manifest
from probe.schema.vocabulary import Precision

SCALED = (Precision.FP16, Precision.AMP_FP16)
DEFAULT_MINIMUM = 1.0


def scales_loss(manifest: Manifest) -> bool:
    """Whether the precision needs a loss scale."""
    return manifest.config.precision in SCALED


def scales_dynamically(manifest: Manifest) -> bool:
    """Whether the scale follows the overflows, which it does unless a fixed one was set."""
    fixed = manifest.config.settings.get("precision.loss_scale.static_scale")
    return scales_loss(manifest) and not (isinstance(fixed, int | float) and fixed > 0)


def minimum_scale(manifest: Manifest) -> float:
    """The floor of the scale."""
    floor = manifest.config.settings.get("precision.loss_scale.minimum_scale")
    return float(floor) if isinstance(floor, int | float) else DEFAULT_MINIMUM
