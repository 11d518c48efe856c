"""train = micro × accumulation × world, exact; whichever is missing follows from the others."""

from engine.config.auto import unresolved
from engine.config.facts import ScriptFacts
from engine.config.policies import BatchPolicy
from engine.config.reading import Reading
from engine.config.values import AUTO

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
ACCUMULATION = "gradient_accumulation_steps"


def batch_policy(reading: Reading, world_size: int, script: ScriptFacts) -> BatchPolicy:
    """The sizes of a run; with neither train nor micro the script's data loader decides."""
    given = {
        path: reading.values[path]
        for path in (TRAIN, MICRO, ACCUMULATION)
        if isinstance(reading.values.get(path), int)
    }
    before = dict(given)
    _make_room_for_flags(given, reading.flagged)
    autos = [path for path in (TRAIN, MICRO) if reading.values.get(path) == AUTO]
    if TRAIN not in given and MICRO not in given and script.micro_batch is not None:
        given[MICRO] = script.micro_batch
    if autos and TRAIN not in given and MICRO not in given:
        reading.faults += [unresolved(path) for path in autos]
        return BatchPolicy()
    if not {TRAIN, MICRO} <= given.keys() and ACCUMULATION not in given:
        asked = reading.values.get(ACCUMULATION) == AUTO
        given[ACCUMULATION] = (script.accumulation_steps if asked else None) or 1
    policy = _completed(reading, given, world_size)
    _say_what_flags_moved(reading, before, policy)
    return policy


def _make_room_for_flags(given: dict[str, int], flagged: set[str]) -> None:
    """A flag keeps the global batch where it can, so that runs stay comparable."""
    micro, accumulation = MICRO in flagged, ACCUMULATION in flagged
    if TRAIN in flagged:
        if not accumulation and MICRO in given:
            given.pop(ACCUMULATION, None)
    elif micro and accumulation:
        given.pop(TRAIN, None)
    elif micro and TRAIN in given:
        given.pop(ACCUMULATION, None)
    elif accumulation and TRAIN in given:
        given.pop(MICRO, None)


def _completed(reading: Reading, given: dict[str, int], world_size: int) -> BatchPolicy:
    train, micro = given.get(TRAIN), given.get(MICRO)
    accumulation = given.get(ACCUMULATION)
    if train is None and micro is None:
        reading.notes.append(
            f"neither {TRAIN} nor {MICRO} is given: the script's data loader decides the batch"
        )
        return BatchPolicy(accumulation_steps=accumulation or 1)
    if train is not None and micro is not None and accumulation is not None:
        product = micro * accumulation * world_size
        if train != product:
            reading.faults.append(
                f"{TRAIN} {train} is not {MICRO} {micro} × {ACCUMULATION} {accumulation}"
                f" × world size {world_size} = {product}"
            )
    elif train is not None and micro is not None:
        accumulation = _quotient(reading, train, MICRO, micro, world_size)
    elif train is not None and accumulation is not None:
        micro = _quotient(reading, train, ACCUMULATION, accumulation, world_size)
    elif micro is not None and accumulation is not None:
        train = micro * accumulation * world_size
    assert accumulation is not None
    return BatchPolicy(train=train, micro=micro, accumulation_steps=accumulation)


def _quotient(reading: Reading, train: int, name: str, factor: int, world_size: int) -> int:
    whole, rest = divmod(train, factor * world_size)
    if rest or not whole:
        reading.faults.append(
            f"{TRAIN} {train} is not a multiple of {name} {factor} × world size {world_size}"
            f" = {factor * world_size}"
        )
    return max(1, whole)


def _say_what_flags_moved(reading: Reading, before: dict[str, int], policy: BatchPolicy) -> None:
    now = {TRAIN: policy.train, MICRO: policy.micro, ACCUMULATION: policy.accumulation_steps}
    if not reading.flagged & now.keys():
        return
    for path, old in before.items():
        if path not in reading.flagged and old != now[path]:
            reading.overrides.append(f"{path} {old} becomes {now[path]} to fit")
