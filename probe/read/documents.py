"""Reading manifest, headers and heartbeats: what is readable, and what is wrong with the rest."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from probe.read.inside import RefusedFileError, open_inside, read_small
from probe.read.problem import Problem
from probe.read.status import RankEvidence
from probe.schema.codec import decode_document
from probe.schema.documents import Header, Heartbeat, Manifest, NodeFacts
from probe.schema.layout import (
    FORMAT_MAJOR,
    HEADER,
    HEARTBEAT,
    MANIFEST,
    node_document,
    rank_dir,
    supports,
)
from probe.schema.vocabulary import Severity

LARGEST_DOCUMENT_BYTES = 16 << 20
_MORE_ATTEMPTS = 2
"""A heartbeat is rewritten in place and a read may meet it half way; not three times, though."""

Kind = TypeVar("Kind", bound=msgspec.Struct)


def read_manifest(root: Path) -> tuple[Manifest | None, list[Problem]]:
    """The manifest, or None where nothing of it can be read."""
    manifest, problems = _read(
        root,
        Manifest,
        MANIFEST,
        missing="Only what the ranks wrote can be shown; configuration and versions are unknown.",
    )
    if manifest is not None and not supports(manifest.format_version):
        problems.append(
            Problem(
                severity=Severity.ERROR,
                file=MANIFEST,
                what=f"was written in format {manifest.format_version[:40]!r}, "
                f"and this version reads {FORMAT_MAJOR}.x",
                hint="Open the run with the version of ZeroProbe that recorded it, or upgrade.",
            )
        )
    return manifest, problems


def read_node(root: Path, node: int) -> tuple[NodeFacts | None, list[Problem]]:
    """What the launcher of a machine says that joined the run."""
    return _read(root, NodeFacts, node_document(node), missing="How its ranks ended is unknown.")


def read_header(root: Path, rank: int) -> tuple[Header | None, list[Problem]]:
    """The header of a rank."""
    header, problems = _read(
        root,
        Header,
        rank_dir(rank),
        HEADER,
        missing="Host and clock of this rank are unknown; its rows are read all the same.",
    )
    if header is not None and header.rank != rank and not problems:
        problems.append(
            Problem(
                severity=Severity.WARNING,
                file=f"{rank_dir(rank)}/{HEADER}",
                what=f"says rank {header.rank} in the folder of rank {rank}",
                hint="The folder's name is believed; check how the run was copied.",
            )
        )
    return header, problems


def read_heartbeat(root: Path, rank: int) -> tuple[Heartbeat | None, float | None, list[Problem]]:
    """The last sign of life of a rank, and when the file was last touched (seconds since 1970)."""
    heartbeat, problems = _read_heartbeat(root, rank)
    for _ in range(_MORE_ATTEMPTS):
        if heartbeat is None or not problems:
            break
        heartbeat, problems = _read_heartbeat(root, rank)
    touched_s = None
    try:
        with open_inside(root, rank_dir(rank), HEARTBEAT) as file:
            touched_s = os.fstat(file.fileno()).st_mtime
    except (OSError, RefusedFileError):
        pass
    return heartbeat, touched_s, problems


def _read_heartbeat(root: Path, rank: int) -> tuple[Heartbeat | None, list[Problem]]:
    return _read(
        root,
        Heartbeat,
        rank_dir(rank),
        HEARTBEAT,
        missing="Whether this rank is alive is concluded from the other ranks.",
    )


def read_evidence(root: Path, rank: int) -> tuple[RankEvidence, list[Problem]]:
    """What a rank's own documents say of it."""
    header, problems = read_header(root, rank)
    heartbeat, touched_s, found = read_heartbeat(root, rank)
    evidence = RankEvidence(header=header, heartbeat=heartbeat, touched_s=touched_s)
    return evidence, problems + found


def _read(
    root: Path, kind: type[Kind], *parts: str, missing: str
) -> tuple[Kind | None, list[Problem]]:
    file = "/".join(parts)
    try:
        content = read_small(root, *parts, limit_bytes=LARGEST_DOCUMENT_BYTES)
    except FileNotFoundError:
        return None, [
            Problem(severity=Severity.WARNING, file=file, what="is missing", hint=missing)
        ]
    except RefusedFileError as refused:
        return None, [refused.problem]
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        hint = "Check the permissions and the health of the disk."
        return None, [Problem(severity=Severity.ERROR, file=file, what=what, hint=hint)]
    if len(content) > LARGEST_DOCUMENT_BYTES:
        what = f"is larger than {LARGEST_DOCUMENT_BYTES >> 20} MiB"
        hint = "No recorder writes such a file; restore it from a copy."
        return None, [Problem(severity=Severity.ERROR, file=file, what=what, hint=hint)]
    document, faults = decode_document(content, kind)
    problems = [
        Problem(
            severity=Severity.ERROR,
            file=file,
            what=fault,
            hint="The rest of the file is used; restore it from a copy if there is one.",
        )
        for fault in faults
    ]
    return document, problems
