"""What can go wrong between ranks, said so that a person knows which rank and what.

ProbeError
├── PeerLostError            a rank ended or died while another still needed it
├── OrderError               two ranks called different collectives at the same point
└── OptimizerNotElementwiseError  the update of one element depends on others, so it cannot be
sharded
"""

from probe.errors import ProbeError, UsageError


class PeerLostError(ProbeError):
    """A rank ended or died while another still waited for it."""


class OrderError(ProbeError):
    """Two ranks called different collectives at the same point of their programs."""


class OptimizerNotElementwiseError(UsageError):
    """The update of an element depends on others, so a rank cannot update its slice alone."""
