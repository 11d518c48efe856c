"""How much arithmetic the model asked for, and what share of the hardware's that is.

Model FLOPs count forward and backward once: recomputation is no work of the model. They come from
the manifest where the run recorded them; otherwise from 6 per parameter and token, plus
12 · layers · hidden · sequence per token for attention where the shape is known. MFU is model FLOPs
a second over the peak of all devices together, for dense arithmetic in the precision used; it is
unknown for devices that are not in the table, CPUs among them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from probe.analyse.steps.steps import CountedSteps
from probe.schema.documents import Manifest
from probe.schema.vocabulary import Precision


class FlopsSource(StrEnum):
    """Where the number of operations comes from."""

    RECORDED = "recorded"
    SIX_PER_PARAMETER = "6 per parameter and token"


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Dense peak of a device in FLOPs a second."""

    name: str
    """Words that the device's name contains."""
    sixteen_bit: float
    thirty_two_bit: float
    """With TF32 where the device has it."""


PEAKS = (
    Peak(name="B200", sixteen_bit=2250e12, thirty_two_bit=1125e12),
    Peak(name="H200", sixteen_bit=989e12, thirty_two_bit=494e12),
    Peak(name="H100 PCIe", sixteen_bit=756e12, thirty_two_bit=378e12),
    Peak(name="H100", sixteen_bit=989e12, thirty_two_bit=494e12),
    Peak(name="A100", sixteen_bit=312e12, thirty_two_bit=156e12),
    Peak(name="A10G", sixteen_bit=70e12, thirty_two_bit=35e12),
    Peak(name="L40S", sixteen_bit=362e12, thirty_two_bit=183e12),
    Peak(name="L40", sixteen_bit=181e12, thirty_two_bit=90e12),
    Peak(name="L4", sixteen_bit=121e12, thirty_two_bit=60e12),
    Peak(name="V100", sixteen_bit=125e12, thirty_two_bit=15.7e12),
    Peak(name="T4", sixteen_bit=65e12, thirty_two_bit=8.1e12),
    Peak(name="4090", sixteen_bit=165e12, thirty_two_bit=82.6e12),
    Peak(name="3090", sixteen_bit=71e12, thirty_two_bit=35.6e12),
)
"""More particular names first: the first whose words are all in a device's name is taken."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The arithmetic of a usual step of all ranks together."""

    flops_per_step: float
    flops_per_s: float
    source: FlopsSource
    peak_flops_per_s: float | None
    """Of all devices together."""

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation."""
        return self.flops_per_s / self.peak_flops_per_s if self.peak_flops_per_s else None


def model_work(counted: CountedSteps, manifest: Manifest) -> Work | None:
    """None if the run tells too little."""
    model = manifest.model
    if not len(counted) or not counted.wall_ns.all():
        return None
    if model.flops_per_sample and counted.samples is not None:
        flops = counted.samples * model.flops_per_sample
        source = FlopsSource.RECORDED
    elif model.param_elements and counted.tokens is not None:
        each = 6.0 * model.param_elements
        if model.layers and model.hidden and model.sequence:
            each += 12.0 * model.layers * model.hidden * model.sequence
        flops = counted.tokens * each
        source = FlopsSource.SIX_PER_PARAMETER
    else:
        return None
    return Work(
        flops_per_step=float(np.median(flops)),
        flops_per_s=float(np.median(flops / (counted.wall_ns / 1e9))),
        source=source,
        peak_flops_per_s=_peak_of_all(manifest),
    )


def _peak_of_all(manifest: Manifest) -> float | None:
    """The peak of the devices that the ranks ran on; None if one of them is not in the table."""
    exact = manifest.config.precision in (Precision.FP32, None)
    total = 0.0
    for device in manifest.devices:
        words = set(re.split(r"[\s-]+", device.name))
        known = next((peak for peak in PEAKS if words.issuperset(peak.name.split())), None)
        if known is None:
            return None
        total += device.count * (known.thirty_two_bit if exact else known.sixteen_bit)
    return total or None
