"""The writer of a run: its directory and its manifest.

One process writes the manifest (the launcher, or rank 0 where there is none): whole, at the start
and again at the end. Everything between lies with the ranks.
"""

import logging
import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from probe.errors import ProbeError
from probe.record.replacing import replace_file
from probe.schema.codec import encode_document
from probe.schema.documents import Manifest
from probe.schema.layout import MANIFEST, slug
from probe.schema.vocabulary import RunStatus

logger = logging.getLogger("zeroprobe")


class RunWriter:
    """Creates a run directory and keeps its manifest."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        replace_file(path / MANIFEST, encode_document(manifest))

    @classmethod
    def create(cls, runs_dir: Path, manifest: Manifest) -> "RunWriter":
        """A new directory below `runs_dir`, named after the moment and the name of the run."""
        started_ns = manifest.started_ns or time.time_ns()
        moment = datetime.fromtimestamp(started_ns / 1e9).astimezone()
        stem = "-".join(filter(None, [f"{moment:%Y%m%d-%H%M%S}", slug(manifest.name)]))
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            path = _make_new_dir(runs_dir, stem)
            manifest = msgspec.structs.replace(
                manifest, run_id=path.name, started_ns=started_ns, status=RunStatus.RUNNING
            )
            return cls(path, manifest)
        except OSError as error:
            raise ProbeError(
                f"Cannot record into {runs_dir} ({error.strerror or error}); "
                "choose another folder with --runs-dir or PROBE_RUNS."
            ) from error

    def update(self, **facts: object) -> None:
        """Put new facts into the manifest; whatever keeps them out of it costs a warning."""
        try:
            manifest = msgspec.structs.replace(self.manifest, **facts)
            content = encode_document(manifest)
            # From here on they are kept: a disk that is full now may take them at the end.
            self.manifest = manifest
            replace_file(self.path / MANIFEST, content)
        except Exception as error:
            # The run may end here, and its exit code shall be its own; nor may the log decide it.
            with suppress(Exception):
                logger.warning("the manifest of %s could not be written (%s)", self.path, error)

    def finish(self, status: RunStatus, exit_codes: dict[int, int]) -> None:
        """State how the run ended."""
        self.update(
            status=status,
            ended_ns=time.time_ns(),
            exit_codes={str(rank): code for rank, code in sorted(exit_codes.items())},
        )


def _make_new_dir(parent: Path, stem: str) -> Path:
    """The first of `stem`, `stem-2`, `stem-3` … that nobody else made, even at the same moment."""
    attempt = 1
    while True:
        path = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            os.mkdir(path)  # noqa: PTH102 - exclusive, which is the point
        except FileExistsError:
            attempt += 1
        else:
            return path
