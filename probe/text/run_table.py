"""The table of runs as columns: texts as texts and numbers as numbers, so that it sorts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from probe.read.discovery import RunSummary, is_readable
from probe.schema.vocabulary import Severity
from probe.telling.run_rows import RunRow
from probe.text.offload import offload_words
from probe.text.printable import printable
from probe.units import MISSING, format_count

MILLISECONDS = 1e6


def run_columns(rows: Sequence[RunRow]) -> Mapping[str, list[Any]]:
    """Columns by their headings, in order; None where a run does not tell."""
    return {
        "run": [printable(row.key) for row in rows],
        "status": [row.summary.verdict.status.value for row in rows],
        "health": [health_words(row.summary) for row in rows],
        "precision": [_text(row.summary.manifest.config.precision) for row in rows],
        "stage": [row.summary.manifest.config.stage for row in rows],
        "offload": [_offload(row.summary) for row in rows],
        "world": [row.summary.manifest.world_size for row in rows],
        "steps": [_steps(row) for row in rows],
        "ms/step": [_milliseconds(row) for row in rows],
        "peak memory": [_peak(row) for row in rows],
        "skips": [row.headline.skipped_steps if row.headline else None for row in rows],
        "tags": [", ".join(map(printable, row.remark.tags)) for row in rows],
        "notes": [printable(row.remark.notes, limit=200) for row in rows],
        "started": [datetime.fromtimestamp(row.summary.started_ns / 1e9, UTC) for row in rows],
    }


def fits(row: RunRow, words: str) -> bool:
    """Whether every word of a search stands somewhere in the run's row."""
    config = row.summary.manifest.config
    text = " ".join(
        [
            row.key,
            row.summary.verdict.status.value,
            health_words(row.summary),
            _text(config.precision),
            "" if config.stage is None else f"stage{config.stage} zero{config.stage}",
            _offload(row.summary),
            *row.remark.tags,
            row.remark.notes,
            row.summary.manifest.name,
            row.summary.manifest.model.name,
        ]
    ).casefold()
    return all(word in text for word in words.casefold().split())


def health_words(run: RunSummary) -> str:
    """The gravest that the documents of a run tell."""
    if not is_readable(run):
        return f"format {printable(run.manifest.format_version, limit=8)}"
    for severity, short in ((Severity.ERROR, "err"), (Severity.WARNING, "warn")):
        count = sum(item.severity is severity for item in run.problems)
        if count:
            return f"{format_count(count)} {short}"
    return "ok"


def _text(word: str | None) -> str:
    return MISSING if word is None else str(word)


def _offload(run: RunSummary) -> str:
    config = run.manifest.config
    return offload_words(optimizer=config.offload_optimizer, params=config.offload_params)


def _steps(row: RunRow) -> int | None:
    return row.headline.recorded_steps if row.headline else row.summary.steps


def _milliseconds(row: RunRow) -> float | None:
    if row.headline is None or row.headline.median_wall_ns is None:
        return None
    return row.headline.median_wall_ns / MILLISECONDS


def _peak(row: RunRow) -> int | None:
    if row.headline is None:
        return None
    peak = row.headline.peak_device or row.headline.peak_ledger
    return peak.peak_bytes if peak else None
