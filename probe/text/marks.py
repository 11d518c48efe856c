"""The colours of words that judge; the word itself always stands there too."""

from probe.schema.vocabulary import RunStatus, Severity

STATUS_STYLE = {
    RunStatus.RUNNING: "cyan",
    RunStatus.FINISHED: "green",
    RunStatus.FAILED: "bold red",
    RunStatus.KILLED: "bold red",
    RunStatus.INTERRUPTED: "yellow",
    RunStatus.STALLED: "bold yellow",
    RunStatus.UNKNOWN: "dim",
}
SEVERITY_STYLE = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "dim",
}
