"""Savers that are killed at a random line of a save, one after another in one folder.

    python -m tests.checkpoint.killed_savers FOLDER KILLS SEED

Each is a fork of this process: it loads what the one before left, says which step that was and
whether it was whole, and goes on saving until the line comes at which it kills itself.
"""

import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import engine
import engine.checkpoint.restoring
from engine.checkpoint import folder as folders
from tests.engine.cases import config, start

ROOM = str(Path(engine.__file__).parent / "checkpoint")
MOMENTS = {("",): 8000, ("folder.py", "saving.py"): 70}
"""Endings of files, and about how many of their lines are run in a save of the model used here.

Nearly all lines of a save write records. The few that rename and remove are aimed at as often.
"""


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(kills):
        child = os.fork()
        if child == 0:
            try:
                live(folder, random.Random(seed * 1000 + number))
            except BaseException as error:
                print(f"broken {error!r}", flush=True)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(f"ended {-os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'alive'}", flush=True)


def live(folder: Path, chance: random.Random) -> None:
    """Look at what is there, then save until the end."""
    trainer = start(config(1))
    loaded: Any = None
    for tag in (None, "best"):
        if tag is None or (folder / tag).exists() or (folder / f".replaced-{tag}").exists():
            path, state = trainer.load_checkpoint(folder, tag)
            if path is not None:
                values = {float(v) for s in trainer.segments for v in s.master.detach().unique()}
                assert values == {float(state["step"])}, "it is put together from two"
        if tag is None:
            loaded = path and state["step"]
    print(f"loaded {loaded}", flush=True)
    step = loaded or 0
    files = chance.choice(list(MOMENTS))
    kill_at(files, chance.randrange(3 * MOMENTS[files]))
    while True:
        step += 1
        trainer.global_steps = step
        with torch.no_grad():
            for segment in trainer.segments:
                segment.master.fill_(step)
        trainer.save_checkpoint(folder, client_state={"step": step}, keep_last=2)
        print(f"saved {step}", flush=True)
        trainer.save_checkpoint(folder, "best", {"step": step}, save_latest=False)
        left = [each.name for each in folder.iterdir() if each.name.startswith(".")]
        assert not left, f"left behind: {left}"
        own = [each for each in folder.iterdir() if each.name.startswith("global_step")]
        assert len(own) <= 2 and folders.latest_tag(folder) == f"global_step{step}"


def kill_at(files: tuple[str, ...], line: int) -> None:
    """Kill this process when so many lines of these files of the checkpoints' room were run."""
    left = line

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        del argument
        name = frame.f_code.co_filename
        if not (name.startswith(ROOM) and name.endswith(files)):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)


if __name__ == "__main__":
    main()
