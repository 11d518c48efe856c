"""The writer of what a launcher says whose machine joined a run: one document, whole every time."""

import logging
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from probe.record.replacing import replace_file
from probe.schema.codec import encode_document
from probe.schema.documents import NodeFacts
from probe.schema.layout import node_document
from probe.schema.vocabulary import RunStatus

logger = logging.getLogger("zeroprobe")


class NodeWriter:
    """Keeps the document of one machine; whatever keeps it off the disk costs a warning."""

    def __init__(self, path: Path, facts: NodeFacts) -> None:
        self.path = path
        self.facts = facts
        self._write()

    def finish(self, status: RunStatus, exit_codes: dict[int, int]) -> None:
        """State how the ranks of this machine ended."""
        self.facts = msgspec.structs.replace(
            self.facts,
            status=status,
            ended_ns=time.time_ns(),
            exit_codes={str(rank): code for rank, code in sorted(exit_codes.items())},
        )
        self._write()

    def _write(self) -> None:
        try:
            replace_file(self.path / node_document(self.facts.node), encode_document(self.facts))
        except Exception as error:
            with suppress(Exception):
                logger.warning("%s could not be written (%s)", self.path, error)
