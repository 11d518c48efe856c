"""Which known name was meant by an unknown one."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to this one, whatever its case; None if none is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not in the set: with the nearest one, or else with all."""
    names = sorted(known)
    meant = nearest(name, names)
    hint = f'did you mean "{meant}"?' if meant else f"known: {', '.join(names)}"
    return f'{what} "{name}" is not known; {hint}'
