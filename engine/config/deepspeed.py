"""From nested blocks of DeepSpeed's names to checked values by path; nothing is decided here."""

from collections.abc import Mapping
from typing import Any

from engine.config.foreign import FOREIGN
from engine.config.key import Key, Kind
from engine.config.keys import ALIASES, BLOCKS, FREE, KEYS, OLD_SWITCHES
from engine.config.nearest import nearest
from engine.config.reading import Reading
from engine.config.sharding_keys import ZERO
from engine.config.values import AUTO, WrongValueError, parsed, shown

KNOWN = (*KEYS, *FOREIGN, *FREE, *BLOCKS, *ALIASES, *OLD_SWITCHES)


def read_blocks(reading: Reading, blocks: Mapping[Any, Any], prefix: str = "") -> None:
    """Put every known value at its path; name all that is unknown, wrong or not here."""
    for name, raw in blocks.items():
        path = f"{prefix}{name}"
        path = ALIASES.get(path, path)
        if raw is None:
            if path not in KNOWN:
                reading.faults.append(_unknown(path))
        elif path in KEYS:
            _read_value(reading, path, raw)
        elif path in FREE:
            _read_free_block(reading, path, raw)
        elif path in FOREIGN:
            _read_foreign(reading, path, raw)
        elif path in OLD_SWITCHES:
            _read_old_switch(reading, path, raw)
        elif path == ZERO and isinstance(raw, bool):
            reading.values[f"{ZERO}.stage"] = int(raw)
            reading.notes.append(f"{ZERO} {shown(raw)} is read as stage {int(raw)}")
        elif path in BLOCKS:
            if isinstance(raw, Mapping):
                read_blocks(reading, raw, f"{path}.")
            else:
                reading.faults.append(f"{path} must be a block of keys, not {shown(raw)}")
        else:
            reading.faults.append(_unknown(path))


def _read_value(reading: Reading, path: str, raw: Any) -> None:
    if path in reading.values:
        reading.faults.append(f"{path} is given twice, under two of its names")
        return
    if isinstance(raw, str) and raw.strip().lower() == AUTO:
        reading.values[path] = AUTO
        return
    try:
        value = parsed(KEYS[path], raw)
    except WrongValueError as error:
        reading.faults.append(str(error))
    else:
        if value is not None:
            reading.values[path] = value


def _read_free_block(reading: Reading, path: str, raw: Any) -> None:
    if isinstance(raw, Mapping):
        reading.values[path] = {str(name): value for name, value in raw.items()}
    else:
        reading.faults.append(f"{path} must be a block of keys, not {shown(raw)}")


def _read_foreign(reading: Reading, path: str, raw: Any) -> None:
    key = FOREIGN[path]
    if key.is_quiet(raw):
        return
    sentence = f"{path} {shown(raw)} is not here: {key.instead}"
    (reading.faults if key.changes_result else reading.notes).append(sentence)


def _read_old_switch(reading: Reading, path: str, raw: Any) -> None:
    key = Key(path=path, kind=Kind.BOOL, lands="")
    try:
        on = parsed(key, raw)
    except WrongValueError as error:
        reading.faults.append(str(error))
        return
    if on:
        reading.notes.append(f'{path} true is read as {OLD_SWITCHES[path]} "cpu"')
        _read_value(reading, OLD_SWITCHES[path], "cpu")


def _unknown(path: str) -> str:
    """Named with the nearest known one: the same word in another block first, then a like word."""
    block, _, leaf = path.rpartition(".")
    elsewhere = [known for known in KNOWN if known.rpartition(".")[2] == leaf]
    beside = [known for known in KNOWN if known.rpartition(".")[0] == block]
    meant = elsewhere[0] if elsewhere else nearest(path, beside) or nearest(path, KNOWN)
    hint = f'; did you mean "{meant}"?' if meant else ""
    return f'"{path}" is not a known key{hint}'
