"""Starting a run and keeping a live line about it: what `run` and `sweep` have in common."""

import sys
from collections.abc import Callable

from probe.launch.launcher import launch
from probe.launch.processes import Finished
from probe.launch.progress import Progress
from probe.launch.request import RunRequest
from probe.text.live_line import LiveLine, progress_line


def launch_with_line(
    request: RunRequest,
    line: LiveLine,
    *,
    on_output: Callable[[bytes, bool], None],
    before: str = "",
) -> Finished:
    """Launch, and let the line say where the run stands, behind what stands before."""

    def show(progress: Progress) -> None:
        stands = progress_line(
            steps=progress.steps,
            expected_steps=progress.expected_steps,
            step_ns=progress.step_ns,
            loss=progress.loss,
            loss_scale=progress.loss_scale,
            skipped=progress.skipped,
            peak_bytes=progress.peak_bytes,
            remaining_ns=progress.remaining_ns,
        )
        line.show(f"{before}{stands}")

    return launch(
        request, invocation=["probe", *sys.argv[1:]], on_output=on_output, on_progress=show
    )
