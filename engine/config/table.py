"""The README's table of keys, made from the tables that the parser uses.

`python -m engine.config.table` prints it.
"""

import math

from engine.config.foreign import FOREIGN, Foreign
from engine.config.keys import ALIASES, FREE, KEYS, Key
from engine.config.values import shown

HEAD = ("| key | default | meaning | status |", "|---|---|---|---|")


def markdown() -> str:
    """All keys: those taken first, in the order of the table, then those that are not here."""
    rows = [*HEAD, *(_taken(key) for key in KEYS.values())]
    rows += [
        f"| `{path}` | – | parameters of the type beside it | taken: `{lands[1:-1]}` |"
        for path, lands in FREE.items()
    ]
    rows += [f"| `{path}` | – | – | taken as `{name}` |" for path, name in ALIASES.items()]
    return "\n".join([*rows, *(_foreign(key) for key in FOREIGN.values())]) + "\n"


def _taken(key: Key) -> str:
    default = "–" if key.default is None else _count(key.default)
    lands = f"taken: `{key.lands}`" if key.direct else f"taken, decides `{key.lands[1:-1]}`"
    return f"| `{key.path}` | {default} | {key.meaning} | {lands} |"


def _count(default: object) -> str:
    if isinstance(default, int) and not isinstance(default, bool) and default >= 10_000:
        power = int(math.log10(default))
        return f"{default // 10**power}e{power}"
    return shown(default).strip('"')


def _foreign(key: Foreign) -> str:
    quiet = " or ".join(shown(value) for value in key.quiet_at)
    what = "refused" if key.changes_result else "a note"
    status = f"not here: {what} unless {quiet}" if quiet else f"not here: {what}"
    return f"| `{key.path}` | – | {key.instead} | {status} |"


if __name__ == "__main__":
    print(markdown(), end="")
