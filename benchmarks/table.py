"""A race as plain text of at most 100 columns, and as JSON."""

from dataclasses import asdict
from typing import Any

from benchmarks.interleave import Race, Record
from benchmarks.peers import MATCHING_PEER
from benchmarks.setting import Setting
from benchmarks.summary import Ratio, Summary, compare, fastest, summarise

HEADINGS = (
    "contestant",
    "median ms",
    "MAD",
    "p10-p90 ms",
    "CPU ms",
    "peak MB",
    "above base",
    "last loss",
)
WIDTHS = (18, 9, 6, 14, 8, 7, 10, 9)

OURS = "zeroprobe"
BOUND = "bound"


def ratios(records: dict[str, Record], stage: int) -> list[Ratio]:
    """Compare us with the faster witness and with the bound, and the witnesses with the bound.

    The witnesses of a stage are DeepSpeed and the matching PyTorch peer; others that raced are
    listed in the table but set no mark.
    """
    witnesses = [name for name in ("deepspeed", MATCHING_PEER[stage]) if name in records]
    found: list[Ratio] = []
    if witnesses:
        best = fastest(records, witnesses)
        if OURS in records:
            found.append(compare(records[OURS], best))
        if BOUND in records:
            found.append(compare(best, records[BOUND]))
    if OURS in records and BOUND in records:
        found.append(compare(records[OURS], records[BOUND]))
    return found


def title(setting: Setting) -> str:
    """Name a setting in one line."""
    return (
        f"{setting.precision}, stage {setting.stage}, {setting.ranks} ranks, {setting.shape} model,"
        f" {setting.micro_batch} x {setting.model_shape.sequence} tokens a rank"
    )


def render(race: Race) -> str:
    """Return the table of one race."""
    setting, records = race.setting, race.records
    lines = [title(setting), _row(HEADINGS)]
    for name, record in records.items():
        summary = summarise(record)
        lines.append(
            _row(
                (
                    name,
                    f"{summary.median_ns / 1e6:.1f}",
                    f"{summary.mad_ns / 1e6:.1f}",
                    f"{summary.p10_ns / 1e6:.1f}-{summary.p90_ns / 1e6:.1f}",
                    f"{summary.cpu_ns / 1e6:.1f}",
                    *(("-", "-", "-") if name == BOUND else _state_cells(summary)),
                )
            )
        )
    if BOUND in records:
        parts = summarise(records[BOUND]).parts_ns
        lines.append(
            "bound: " + ", ".join(f"{part} {time / 1e6:.1f} ms" for part, time in parts.items())
        )
    lines += [_ratio_line(ratio) for ratio in ratios(records, setting.stage)]
    lines.append(f"other processes took {race.others_share:.0%} of the machine meanwhile")
    return "\n".join(lines)


def to_json(race: Race) -> dict[str, Any]:
    """Return everything of one race: the setting, the figures, and the raw step times."""
    return asdict(race) | {
        "summaries": {name: asdict(summarise(record)) for name, record in race.records.items()},
        "ratios": [asdict(ratio) for ratio in ratios(race.records, race.setting.stage)],
    }


def _state_cells(summary: Summary) -> tuple[str, str, str]:
    """Say what is held and learnt; the bound trains nothing and its buffers bound nothing."""
    return (
        f"{summary.peak_bytes / 1e6:.0f}",
        f"{(summary.peak_bytes - summary.base_bytes) / 1e6:.0f}",
        f"{summary.last_loss:.4f}",
    )


def _row(cells: tuple[str, ...]) -> str:
    first, *others = zip(cells, WIDTHS, strict=True)
    return " ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])


def _ratio_line(ratio: Ratio) -> str:
    return (
        f"{ratio.above} / {ratio.below}: {ratio.value:.3f}"
        f"  (95 % interval {ratio.low:.3f} to {ratio.high:.3f}); CPU {ratio.cpu:.3f}"
    )
