"""What a run does not tell, in words: a blank would leave people to guess why."""

from probe.analyse.steps.headline import Headline
from probe.read.run import Run
from probe.schema.tables import COMM, MEMORY, NUMERICS
from probe.schema.vocabulary import RunStatus

INITIALIZE = "`engine, optimizer, _, _ = engine.initialize(model=…, config=…)`"
NO_ENGINE = (
    f"No step was recorded: the script built no engine. Start from {INITIALIZE}, or put "
    "`engine.watch(model, optimizer)` beside a loop of your own; until then only output, exit "
    "codes, time and memory are seen."
)
FROM_TRACES = (
    "Made of traces: losses, loss scales, gradient norms and memory by category are in no trace, "
    "and every step was profiled."
)
_TRACES = "kineto"
_WATCHED = "torch "
"""How the recorder of a loop of the user's own is named: torch and its version."""


def gap_sentences(run: Run, headline: Headline, table_rows: dict[str, int]) -> list[str]:
    """What is missing and what would bring it; empty for a run that the engine recorded whole."""
    if not headline.recorded_steps:
        return [_no_step(run)]
    if run.manifest.recorder == _TRACES:
        return [FROM_TRACES]
    missing = []
    if headline.last_loss is None:
        missing.append("losses")
    if not table_rows.get(COMM.name) and max(run.manifest.world_size, len(run.ranks)) > 1:
        missing.append("what ranks exchange")
    if not table_rows.get(MEMORY.name):
        missing.append("memory")
    sentences = []
    if missing:
        sentences.append(f"Not recorded: {', '.join(missing)}. {_remedy(run, missing)}")
    config = run.manifest.config
    if config.stage is None and (table_rows.get(COMM.name) or table_rows.get(MEMORY.name)):
        sentences.append(
            "Its ZeRO stage is not known, so no closed form stands beside what it did."
        )
    if table_rows.get(NUMERICS.name) == 0 and config.settings:
        sentences.append(
            "Gradients were not sampled; `--numerics-every 100` does so every 100 steps."
        )
    return sentences


def _remedy(run: Run, missing: list[str]) -> str:
    """What would record it; who watches a loop has chosen to keep it, and is left it."""
    if not run.manifest.recorder.startswith(_WATCHED):
        return f"A loop around {INITIALIZE} records that too."
    if "losses" in missing:
        return "`watch.step(loss)` records the loss; the rest a watched loop does not tell."
    return "A watched loop does not tell it."


def _no_step(run: Run) -> str:
    if not any(header.engine for header in run.headers.values()):
        if run.verdict.status is RunStatus.RUNNING:
            return "No step yet, and no engine: the script has not come to `engine.initialize`."
        return NO_ENGINE
    if run.verdict.status is RunStatus.RUNNING:
        return "No step yet: the first one is under way."
    return "No step was recorded: the script built an engine and ended before its first step did."
