"""What torch.distributed.run starts on each rank: the user's script, with a recording around it.

    python -m engine.worker SCRIPT [ARGUMENTS]

The script runs as if it had been started itself: as `__main__`, with its arguments and its folder
first on the path.
"""

import io
import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

from engine.recording import begin
from engine.run_dir import met
from probe.schema.handover import HANDOVER_VARIABLE, Handover


def main() -> None:
    """Run the script and see it out."""
    text = os.environ.get(HANDOVER_VARIABLE)
    session = begin(met(Handover.from_text(text)) if text else Handover())
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Into a pipe whole lines go at once, so that those of several ranks do not interleave.
            stream.reconfigure(line_buffering=True, write_through=False)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code in (None, 0):
            session.finished()
        else:
            session.failed(ended)
        raise
    except BaseException as error:
        session.failed(error)
        error.__traceback__ = _from_the_script(error.__traceback__, script)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    session.finished()


def _from_the_script(trace: TracebackType | None, script: str) -> TracebackType | None:
    """The traceback from the script on: how it was started helps nobody."""
    whole = trace
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    return trace or whole


if __name__ == "__main__":
    main()
