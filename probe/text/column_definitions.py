"""What each column of a table on a page means; the texts behind its heading.

A heading that begins with a side of a comparison, as "A exposed" does, speaks of that run.
"""

import re
from collections.abc import Mapping

_SIDE = re.compile(r"(?P<side>[A-Z]|S\d+)(?: (?P<what>.+))?")
_AT_STEP = re.compile(r"step \d+")

COLUMN_DEFINITIONS: Mapping[str, str] = {
    # - Exchange and ranks
    "operation": "What ranks did together.",
    "phase": "A part of the step; of a collective, that in which it was asked for.",
    "calls": "How often: a step and rank for collectives, in the whole window for operators.",
    "payload": "Bytes that were asked for, a step and rank; what goes over a wire depends on the "
    "algorithm.",
    "busy": "Time a step during which it was on its way, hidden or not.",
    "exposed": "Time a step in which the computing thread stood still for it.",
    "busbw": "Bus bandwidth by nccl-tests: comparable with the hardware for any number of ranks.",
    "own time": "Median time of a step that the rank did not stand still for others.",
    "data": "Median time of a step in which the rank got its batch.",
    "in collectives": "Median time of a step during which a collective of the rank was on its way.",
    "waited": "Mean time a step in which its part was there and that of another rank was not.",
    "came last": "Share of the timed collectives that had to wait for this rank.",
    "rank": "Its number among all processes of the run, from 0.",
    "tokens": "Mean of a step: an uneven load is a reason to be slow.",
    "samples": "Mean of a step: an uneven load is a reason to be slow.",
    "exchange": "What ranks exchange it for: to reduce gradients, or to gather weights.",
    "sent": "Bytes that the rank put on a wire in a usual step.",
    # - Memory and offload
    "memory": "What the bytes are held for; outside is what the allocator holds beyond the ledger.",
    "tier": "Where the bytes lie: device, host or disk.",
    "measured": "Bytes at the moment of the peak.",
    "theory": "The closed form of this stage, precision, world size and offload.",
    "residual": "Measured less theory, where there is a difference worth a name.",
    "category": "What the bytes are held for; on the device unless it says otherwise.",
    "offload": "What rests off the device between uses.",
    "direction": "Off the device (out) or back to it (in).",
    "a step": "Bytes a step and rank.",
    "rate": "Bytes by the time that they were on their way.",
    "depth": "Most requests under way at the same time.",
    # - Precision
    "first": "Whether its rank met nothing bad before it: where the overflow began there.",
    "step": "The attempted optimizer step, from 0.",
    "what": "Gradient, weight, output or loss.",
    "parameter": "Name in the model; of a gradient or a weight.",
    "module": "Whose output or parameter it is.",
    "of the tensor": "The bad elements among all of the tensor.",
    "kind": "For an overflow inf or nan; for a kernel what it is for.",
    "micro-batch": "In which of the step's micro-batches, counted from 0.",
    "bad elements": "How many of its values are infinite or no number.",
    "loss scale": "The factor on the loss in that step.",
    # - Time, operators, kernels
    "median": "Of the steps that count.",
    "share": "Of the step's wall time.",
    "own": "Time in the operator itself, without what it called.",
    "total": "Time from its begin to its end, with what it called.",
    "device": "Time of the kernels that it launched.",
    "mean": "Total by calls.",
    "longest": "The longest single call.",
    "operator": "What the framework was asked for, by the profiler's name.",
    "kernel": "What ran on the device, by the profiler's name.",
    # - Comparisons
    "run": "The letter that stands for the run on this page.",
    "in": "The setting, or the fact about the run.",
    "measure": "What is compared; below each run its value.",
    "loss over the run": "Its course on one height for both runs, first step to last.",
    "tokens/s": "Tokens that all ranks consume in a second: the median of the steps that count.",
    "samples/s": "Samples that all ranks consume in a second: the median of the steps that count.",
    "ms/step": "Median wall time of a step that counts, on its slowest rank.",
    "±": "Half of the 95 % interval of the step time, as a share of it.",
    "peak mem": "Most that the fullest rank held.",
    "loss": "The last one recorded.",
    "skips": "Steps that changed no parameter.",
    "prec": "Precision of forward and backward.",
    "zero": "ZeRO stage.",
    "change": "The second run against the first.",
    "95 % interval": "Where the true change lies, given how much the steps scatter and how far "
    "each depends on the one before it.",
    "verdict": "Faster or slower is only said if the interval leaves out no change, and the change "
    "is large enough to matter.",
    "difference": "The second run less the first.",
    "differs": "Intended: what the comparison is about. Breaking: the numbers do not belong side "
    "by side. Nuisance: it may have had a say.",
}


def definition_of(heading: str) -> str:
    """What a column means; empty for the user's own metrics and for headings without words."""
    if heading in COLUMN_DEFINITIONS:
        return COLUMN_DEFINITIONS[heading]
    if _AT_STEP.fullmatch(heading):
        return "The loss in the last step that both runs have."
    of_side = _SIDE.fullmatch(heading)
    if of_side is None:
        return ""
    meaning = COLUMN_DEFINITIONS.get(of_side["what"] or "", "")
    return f"Run {of_side['side']}. {meaning}".strip()
