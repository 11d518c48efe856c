"""Everything that a run was set up with, flat: one dotted name and one plain value each.

Names, tags, notes and dates are left out: they make no run another. What the run does not tell is
absent, which is not the same as empty. Words stay words and numbers numbers, so that 8 and "8" are
a difference and 8 and 8.0 are none.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from probe.schema.documents import Document, Manifest

Plain = str | int | float | bool
Setup = Mapping[str, Plain]


def setup_of(manifest: Manifest, *, engine: str = "") -> Setup:
    """The setup of a run, sorted by name; `engine` is what its ranks say they ran."""
    config = _facts(manifest.config)
    settings = config.pop("settings")
    parts = {
        "config": config,
        "settings": settings,
        "model": _facts(manifest.model),
        "versions": manifest.versions,
        "seeds": manifest.seeds,
        "environment": manifest.environment,
        "git": _facts(manifest.git),
        "script": {"path": manifest.script, "sha256": manifest.script_sha256},
        "hosts": _together([_facts(host) for host in manifest.hosts]),
        "devices": _together([_facts(device) for device in manifest.devices]),
    }
    flat = {
        "world_size": manifest.world_size,
        "backend": manifest.backend,
        "recorder": manifest.recorder,
        "engine": engine,
        "command": " ".join(manifest.command),
        "expected_steps": manifest.expected_steps,
        **dict(_flat("", parts)),
    }
    # An empty text in a document is how it says that it was not told.
    return {name: value for name, value in sorted(flat.items()) if value not in (None, "")}


def _facts(document: Document) -> dict[str, Any]:
    return {name: getattr(document, name) for name in document.__struct_fields__}


def _flat(prefix: str, value: object) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), item)
    elif isinstance(value, StrEnum):
        yield prefix, value.value
    elif isinstance(value, str | int | float | bool):
        yield prefix, value
    elif isinstance(value, Sequence):
        yield prefix, ", ".join(map(str, value))


def _together(machines: Sequence[Mapping[str, Plain | None]]) -> dict[str, Plain]:
    """Machines as one: each fact once where all agree, else all that differ, sorted."""
    facts: dict[str, Plain] = {}
    for name in machines[0] if machines else ():
        values = {str(item[name]): item[name] for item in machines}
        (first, *more) = (values[key] for key in sorted(values))
        if more:
            facts[name] = ", ".join(sorted(values))
        elif first is not None:
            facts[name] = first
    return facts
