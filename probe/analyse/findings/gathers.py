"""The gathers that stage 3 can fetch ahead; the rules on communication share this."""

from probe.analyse.communication.use import OperationTraffic
from probe.schema.documents import Manifest
from probe.schema.vocabulary import CollectiveOp, Phase


def is_prefetched(item: OperationTraffic, manifest: Manifest) -> bool:
    """Whether it brings parameters for use: a gather of stage 3 in forward or backward."""
    return (
        manifest.config.stage == 3
        and item.op == CollectiveOp.ALL_GATHER
        and item.phase in (Phase.FORWARD, Phase.BACKWARD)
    )
