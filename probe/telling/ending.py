"""Why a run ended as it did, in the words that its ranks left."""

from probe.read.run import Run
from probe.schema.tables import EVENTS
from probe.schema.vocabulary import EventKind


def cause_of(run: Run, first_failed: int | None) -> str | None:
    """What the rank that failed first said; what any did if that one could say nothing."""
    rows = run.table(EVENTS, columns=["rank", "kind", "message"]).table.to_pylist()
    causes = [row for row in rows if row["kind"] == EventKind.EXCEPTION]
    first = [row for row in causes if row["rank"] == first_failed] or causes
    message: str | None = first[0]["message"] if first else None
    return message


def recording_stopped(run: Run) -> str | None:
    """Why a rank recorded no further, if one did not."""
    rows = run.table(EVENTS, columns=["kind", "message"]).table.to_pylist()
    stopped = [row["message"] for row in rows if row["kind"] == EventKind.RECORDING_STOPPED]
    return stopped[0] if stopped else None
