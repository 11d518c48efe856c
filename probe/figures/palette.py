"""What a colour, a dash and a pattern mean: the same on every page, light or dark.

Colours are neither so light nor so dark that they vanish on a white or a nearly black ground, and
are told apart by people who see red and green alike. None stands alone: areas and bars have a
pattern, lines a dash, markers a shape.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probe.schema.vocabulary import CollectiveOp, MemoryCategory, Phase, Tier


@dataclass(frozen=True, kw_only=True)
class Look:
    """How something is drawn wherever it occurs."""

    colour: str
    pattern: str = ""
    """Of an area or bar, in Plotly's words; empty is plain."""
    dash: str = "solid"
    """Of a line."""
    symbol: str = "circle"
    """Of a marker."""


PHASES: Mapping[Phase, Look] = {
    Phase.DATA: Look(colour="#b8902f", pattern="."),
    Phase.FORWARD: Look(colour="#5fa3d9"),
    Phase.BACKWARD: Look(colour="#2f6fb0"),
    Phase.GATHER_WAIT: Look(colour="#ec9438", pattern="/"),
    Phase.REDUCE_WAIT: Look(colour="#cf5a2c", pattern="\\"),
    Phase.OPTIMIZER: Look(colour="#3d9b73"),
    Phase.OFFLOAD_WAIT: Look(colour="#9a6fc4", pattern="x"),
    Phase.CHECKPOINT: Look(colour="#94705a", pattern="-"),
    Phase.OTHER: Look(colour="#8b929b", pattern="|"),
}
"""Computing is blue and green, waiting for others orange, for host or disk violet."""

MEMORY: Mapping[MemoryCategory, Look] = {
    MemoryCategory.PARAMS: Look(colour="#2f6fb0"),
    MemoryCategory.GATHERED_PARAMS: Look(colour="#ec9438", pattern="/"),
    MemoryCategory.GRADS: Look(colour="#cf5a2c"),
    MemoryCategory.GRAD_BUCKETS: Look(colour="#d67a93", pattern="\\"),
    MemoryCategory.MASTER_PARAMS: Look(colour="#3d9b73"),
    MemoryCategory.OPTIMIZER_STATES: Look(colour="#237a63", pattern="."),
    MemoryCategory.ACTIVATIONS: Look(colour="#5fa3d9"),
    MemoryCategory.COMM_BUFFERS: Look(colour="#9a6fc4", pattern="x"),
    MemoryCategory.OTHER: Look(colour="#8b929b", pattern="|"),
}

OPERATIONS: Mapping[CollectiveOp, Look] = {
    CollectiveOp.ALL_GATHER: Look(colour="#ec9438", pattern="/"),
    CollectiveOp.REDUCE_SCATTER: Look(colour="#cf5a2c", pattern="\\"),
    CollectiveOp.ALL_REDUCE: Look(colour="#b34f6d"),
    CollectiveOp.ALL_TO_ALL: Look(colour="#9a6fc4", pattern="x"),
    CollectiveOp.BROADCAST: Look(colour="#3d9b73", pattern="."),
    CollectiveOp.REDUCE: Look(colour="#94705a", pattern="-"),
    CollectiveOp.GATHER: Look(colour="#b8902f", pattern="+"),
    CollectiveOp.SCATTER: Look(colour="#5fa3d9", pattern="+"),
    CollectiveOp.BARRIER: Look(colour="#8b929b", pattern="|"),
    CollectiveOp.SEND: Look(colour="#2f6fb0", pattern="-"),
    CollectiveOp.RECV: Look(colour="#237a63", pattern="-"),
}

TIERS: Mapping[Tier, Look] = {
    Tier.DEVICE: Look(colour="#2f6fb0"),
    Tier.HOST: Look(colour="#9a6fc4", dash="dash"),
    Tier.DISK: Look(colour="#94705a", dash="dot"),
}

WINDOW: Mapping[str, Look] = {
    "computation": Look(colour="#2f8f9d"),
    "communication": Look(colour="#c25577", pattern="/"),
    "memcpy": Look(colour="#a8812a", pattern="x"),
    "idle": Look(colour="#8b929b", pattern="|"),
}
"""What a trace tells apart: other things than phases, so other colours beside them."""

_SERIES = (
    Look(colour="#2f7ac0"),
    Look(colour="#d3622d", dash="dash", symbol="square"),
    Look(colour="#3a936d", dash="dot", symbol="diamond"),
    Look(colour="#9a6fc4", dash="dashdot", symbol="triangle-up"),
    Look(colour="#a8812a", dash="longdash", symbol="cross"),
    Look(colour="#c25577", dash="longdashdot", symbol="pentagon"),
    Look(colour="#2f8f9d", dash="4px 2px", symbol="star"),
    Look(colour="#8a6d5b", dash="8px 3px 2px 3px", symbol="hexagon"),
)

BAD = Look(colour="#d1443c", symbol="x")
"""What went wrong: an overflow, a value that is no number, a regression."""
GOOD = Look(colour="#3a936d", symbol="triangle-up")
NEUTRAL = Look(colour="#868d96")
"""Lines that help the eye, and what no category claims."""
THEORY = Look(colour="#868d96", pattern="/")
"""What a closed form says; hatched, and never filled."""
PLAIN = _SERIES[0]
"""The one series of a chart that has but one."""

HEAT = [[0.0, "#2b4d7d"], [0.25, "#3d86b8"], [0.5, "#c9c08a"], [0.75, "#e08a3c"], [1.0, "#c2372b"]]
"""From little to much, for heatmaps."""


CELLS = [[0.0, "#1f5a8a"], [0.5, "#6b6f8e"], [1.0, "#b3402f"]]
"""The same for cells with white text in them."""


def pattern(look: Look) -> dict[str, Any]:
    """The pattern of an area: faint lines over the plain colour."""
    return {
        "shape": look.pattern,
        "size": 7,
        "solidity": 0.25,
        "fillmode": "overlay",
        "fgcolor": "rgba(255,255,255,0.55)",
    }


def bar_fill(look: Look) -> dict[str, Any]:
    """The marker of a bar."""
    return {"color": look.colour, "pattern": pattern(look), "line": {"width": 0}}


def bar_fills(looks: Sequence[Look]) -> dict[str, Any]:
    """The marker of a trace whose bars mean different things; each has its name on the axis."""
    return {"color": [look.colour for look in looks], "line": {"width": 0}}


def hollow_fill(look: Look) -> dict[str, Any]:
    """The marker of a bar that stands for what was expected: an outline with hatching."""
    return {
        "color": "rgba(0,0,0,0)",
        "pattern": {
            "shape": "/",
            "size": 6,
            "solidity": 0.2,
            "fillmode": "replace",
            "bgcolor": "rgba(0,0,0,0)",
            "fgcolor": look.colour,
        },
        "line": {"width": 1.2, "color": look.colour},
    }


def line_of(look: Look, width: float = 1.4) -> dict[str, Any]:
    """The line of a series."""
    return {"color": look.colour, "dash": look.dash, "width": width}


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    return "#10141a" if luminance(colour) > 0.2 else "#ffffff"


def luminance(colour: str) -> float:
    """Relative luminance of a colour written #rrggbb, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def run_look(index: int) -> Look:
    """The look of the run at this place of a comparison."""
    return _SERIES[index % len(_SERIES)]


def rank_look(rank: int) -> Look:
    """The look of a rank where few are drawn as lines; many belong into a heatmap."""
    return _SERIES[rank % len(_SERIES)]


def operation_look(op: str) -> Look:
    """The look of a collective; of one that a newer version knows, the neutral one."""
    return next((look for known, look in OPERATIONS.items() if known == op), NEUTRAL)


def all_looks() -> dict[str, Look]:
    """Every look under the name of what it means."""
    named = {
        f"{kind}.{key}": look for kind, looks in _GROUPS.items() for key, look in looks.items()
    }
    named |= {f"series.{index}": look for index, look in enumerate(_SERIES)}
    return named | {"bad": BAD, "good": GOOD, "neutral": NEUTRAL}


_GROUPS: Mapping[str, Mapping[Any, Look]] = {
    "phase": PHASES,
    "memory": MEMORY,
    "operation": OPERATIONS,
    "tier": TIERS,
    "window": WINDOW,
}
