"""What is done when the last machine of a run has said how it ended: tidy up, distill, seal.

The machine that began the run waits a while for the others and does it; whoever ends later than
that does it instead, so that no run stays open because a machine was slow to end.
"""

import logging
import shutil
from pathlib import Path

from probe.distill import distill_run
from probe.errors import ProbeError
from probe.read.nodes import machine_of_ranks, read_nodes
from probe.schema.layout import OFFLOAD_DIR
from probe.seal import seal_run

logger = logging.getLogger("zeroprobe")


FIRST_NODE = 0
"""The machine that begins a run; its word is the manifest."""


def silent_nodes(path: Path) -> list[int]:
    """The machines that joined a run and have not said how their ranks ended."""
    nodes, _ = read_nodes(path)
    ended = {item.node for item in nodes if item.ended_ns is not None}
    return sorted(set(machine_of_ranks(path).values()) - ended - {FIRST_NODE})


def complete(path: Path) -> None:
    """Leave a run as it shall stay; what goes wrong costs a warning and no data."""
    # A rank that was killed leaves what it kept there, which may be large and is of no use.
    shutil.rmtree(path / OFFLOAD_DIR, ignore_errors=True)
    try:
        for problem in distill_run(path).problems:
            logger.warning("%s %s", problem.file, problem.what)
        seal_run(path)
    except (ProbeError, OSError) as error:
        logger.warning("%s is not sealed, and reads all the same: %s", path, error)
