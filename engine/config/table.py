"""The README's table of keys, made from the tables that the parser uses.

`python -m engine.config.table` prints it.
"""

import math

from engine.config.foreign import FOREIGN, Foreign
from engine.config.key import Key
from engine.config.keys import ALIASES, FREE, KEYS, OLD_SWITCHES
from engine.config.values import shown

HEAD = "| key | default | meaning | status |\n|---|---|---|---|\n"


def markdown() -> str:
    """All keys: those taken first, in the order of the table, then those that are not here."""
    rows = [_taken(key) for key in KEYS.values()]
    rows += [
        _row([path], "–", "parameters of the type beside it", f"taken: `{lands[1:-1]}`")
        for path, lands in FREE.items()
    ]
    rows += [_row([path], "–", "–", f"taken as `{name}`") for path, name in ALIASES.items()]
    rows += [
        _row([path], "false", "an older name", f'taken as `{name}` "cpu"')
        for path, name in OLD_SWITCHES.items()
    ]
    together: dict[tuple[str, str], list[str]] = {}
    for key in FOREIGN.values():
        together.setdefault((key.instead, _absence(key)), []).append(key.path)
    rows += [_row(paths, "–", instead, status) for (instead, status), paths in together.items()]
    return HEAD + "\n".join(rows) + "\n"


def _row(paths: list[str], default: str, meaning: str, status: str) -> str:
    names = ", ".join(f"`{path}`" for path in paths)
    return f"| {names} | {default} | {meaning} | {status} |"


def _taken(key: Key) -> str:
    default = "–" if key.default is None else _count(key.default)
    lands = f"taken: `{key.lands}`" if key.direct else f"taken, decides `{key.lands[1:-1]}`"
    return _row([key.path], default, key.meaning, lands)


def _count(default: object) -> str:
    if isinstance(default, int) and not isinstance(default, bool) and default >= 10_000:
        power = int(math.log10(default))
        return f"{default // 10**power}e{power}"
    return shown(default).strip('"')


def _absence(key: Foreign) -> str:
    quiet = " or ".join(shown(value) for value in key.quiet_at)
    what = "refused" if key.changes_result else "a note"
    return f"not here: {what} unless {quiet}" if quiet else f"not here: {what}"


if __name__ == "__main__":
    print(markdown(), end="")
