"""What is wrong with a run directory, as data: the reader collects it and never raises it."""

from dataclasses import dataclass

from probe.schema.vocabulary import Severity


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, where it is, and what a person can do."""

    severity: Severity
    file: str
    """Path within the run."""
    what: str
    hint: str
    line: int | None = None
    """Line of the file, from 1."""
