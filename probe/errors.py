"""What can go wrong for a person, as one small tree.

ProbeError                  what a person can mend: one sentence, the thing and the remedy
├── UsageError              the call was wrong                               exit 2
├── NotARunError            the path holds no run                            exit 2
├── FormatVersionError      the run was written by another major version     exit 2
├── RunStateError           the run is not in a state that allows this       exit 2
└── ConfigError             a configuration with one or more faults          exit 2

A broken assumption of our own is an `assert`; a damaged run is a `Problem`: data, no exception.
`probe.__main__` is the one place that turns these into a sentence and an exit code.
"""

from collections.abc import Sequence


class ProbeError(Exception):
    """Something a person can mend, said in one sentence."""

    exit_code = 2


class UsageError(ProbeError):
    """The call itself was wrong."""


class NotARunError(ProbeError):
    """The path holds no run directory."""


class FormatVersionError(ProbeError):
    """The run was written by another major version of the format."""


class RunStateError(ProbeError):
    """The run is not in a state that allows what was asked (sealing a live run, for example)."""


class ConfigError(ProbeError):
    """A configuration with faults; all of them are listed, not only the first."""

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        count = len(self.faults)
        head = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  - {fault}" for fault in self.faults)]))
