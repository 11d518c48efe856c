"""A run of several machines as one: its manifest, and what the launchers of the others say.

Every launcher writes a document of its own, so none waits for another and none overwrites another.
The machine that began the run wrote the manifest; the rest is put together here, when it is read.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from probe.read.documents import read_header, read_manifest, read_node
from probe.read.inside import file_names, listed_ranks
from probe.read.problem import Problem
from probe.schema.documents import Manifest, NodeFacts
from probe.schema.layout import node_of
from probe.schema.vocabulary import RunStatus

_GRAVEST_FIRST = (
    # Who was asked to end takes the others down with it; who does not say leaves it to the ranks.
    RunStatus.INTERRUPTED,
    RunStatus.RUNNING,
    RunStatus.FAILED,
    RunStatus.KILLED,
    RunStatus.FINISHED,
)


def read_whole(root: Path) -> tuple[Manifest | None, list[Problem]]:
    """The manifest with the facts of every machine."""
    manifest, problems = read_manifest(root)
    nodes, found = read_nodes(root)
    return (None if manifest is None else with_nodes(manifest, nodes)), problems + found


def read_nodes(root: Path) -> tuple[list[NodeFacts], list[Problem]]:
    """What the launchers of other machines say, in the order of their numbers."""
    nodes: list[NodeFacts] = []
    problems: list[Problem] = []
    for name in file_names(root):
        number = node_of(name)
        if number is None:
            continue
        facts, found = read_node(root, number)
        problems += found
        if facts is not None:
            nodes.append(facts)
    return nodes, problems


def machine_of_ranks(root: Path) -> dict[int, int]:
    """On which machine each rank was started, by what it says itself."""
    headers = {rank: read_header(root, rank)[0] for rank in listed_ranks(root)[0]}
    return {rank: header.node for rank, header in headers.items() if header is not None}


def with_nodes(manifest: Manifest, nodes: Sequence[NodeFacts]) -> Manifest:
    """The manifest as it would be if one launcher had seen all machines."""
    if not nodes:
        return manifest
    stated = {manifest.status, *(node.status for node in nodes)}
    ends_ns = [manifest.ended_ns, *(node.ended_ns for node in nodes)]
    known_ns = [end_ns for end_ns in ends_ns if end_ns is not None]
    codes = dict(manifest.exit_codes)
    for node in nodes:
        codes |= node.exit_codes
    return msgspec.structs.replace(
        manifest,
        status=next((word for word in _GRAVEST_FIRST if word in stated), manifest.status),
        ended_ns=max(known_ns) if len(known_ns) == len(ends_ns) else None,
        hosts=[*manifest.hosts, *(node.host for node in nodes)],
        exit_codes=codes,
    )
