"""What a machine is called in a run."""

import os
import socket

HOST_VARIABLE = "PROBE_HOST"


def host_name() -> str:
    """What PROBE_HOST says, for runs that leave the house; else what the machine calls itself."""
    return os.environ.get(HOST_VARIABLE) or socket.gethostname()
