"""DeepSpeed without its head start: at stage 0 in 16 bits it begins one Adam step ahead.

To allocate its states, the 16-bit optimizer of stage 0 takes one step with zero gradients when it
is built. That counts: the bias correction of every later step is that of the next one, so the
first update is 0.73 of what AdamW prescribes. Here the count goes back to zero, and the rest of
DeepSpeed can be compared.
"""

from benchmarks.model import GPT
from benchmarks.peers import deepspeed
from benchmarks.setting import Setting


def build(model: GPT, setting: Setting) -> deepspeed.DeepSpeed:
    """Build DeepSpeed and set the step counts of its optimizer to zero."""
    contestant = deepspeed.build(model, setting)
    for state in contestant.engine.optimizer.optimizer.state.values():
        state["step"] = 0
    return contestant
