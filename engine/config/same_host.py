"""How ranks of one host reach each other: the environment's word, or else the configuration's."""

import os

from engine.config.policies import Config, SameHost
from probe.errors import UsageError

VARIABLE = "PROBE_SAME_HOST"


def same_host(config: Config) -> SameHost:
    """What was asked for; what is possible the ranks find out."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        return config.same_host
    if asked not in tuple(SameHost):
        raise UsageError(
            f"{VARIABLE} is {asked!r}; it may be {' or '.join(SameHost)}, and says how ranks of"
            " one host reach each other"
        )
    return SameHost(asked)
