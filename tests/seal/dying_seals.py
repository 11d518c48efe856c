"""Seals that die: for each line on stdin, one process begins to seal and is killed.

`RUN step N` kills itself at its Nth step: each call that changes the directory, or makes it last,
has one before and one after. `RUN after SECONDS` is killed from outside. The answer says whether
the seal died (1) or had come to its end (0). Each is a fork of this process, which has everything
loaded and has done nothing yet.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from probe.seal import seal_run

WATCHED = ("rename", "replace", "unlink", "fsync", "mkdir")


def die_at_step(number: int) -> None:
    """Let the process kill itself at one of its steps."""
    left = number

    def step() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    def watch(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            step()
            result = call(*args, **kwargs)
            step()
            return result

        return watched

    for name in WATCHED:
        setattr(os, name, watch(getattr(os, name)))


def seal_and_die(run_dir: Path, way: str, amount: float) -> bool:
    """Whether the seal died before its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if way == "step":
                die_at_step(int(amount))
            seal_run(run_dir)
            code = 0
        finally:
            os._exit(code)
    if way == "after":
        time.sleep(amount)
        os.kill(pid, signal.SIGKILL)
    _, how = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(how) or os.WEXITSTATUS(how) == 0, how
    return os.WIFSIGNALED(how)


def main() -> None:
    for line in sys.stdin:
        directory, way, amount = line.rstrip("\n").split("\t")
        print(int(seal_and_die(Path(directory), way, float(amount))), flush=True)


if __name__ == "__main__":
    main()
