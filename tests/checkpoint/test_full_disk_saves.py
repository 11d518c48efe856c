"""A save that finds no room says so on every rank, and what was saved before is as it was."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from probe.errors import ProbeError
from tests.engine.cases import config, start, train
from tests.engine.team import Team


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond a size: the kernel writes a part, then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def no_room(trainer: Any, rank: int) -> Iterator[None]:
    with largest_file(100 if trainer.global_rank == rank else resource.RLIM_INFINITY):
        yield


def fills_up(folder: str, rank: int, asynchronous: bool) -> tuple[str, float]:
    trainer = start(config(2))
    train(trainer, 2)
    trainer.save_checkpoint(folder)
    train(trainer, 1, first=2)
    with no_room(trainer, rank), pytest.raises(ProbeError) as caught:
        trainer.save_checkpoint(folder, asynchronous=asynchronous)
        train(trainer, 1, first=3)
        trainer.save_checkpoint(folder)
    # It is a matter of this save only: the training goes on, and so do later saves.
    train(trainer, 1, first=4)
    trainer.load_checkpoint(folder)
    assert trainer.global_steps == 2
    loss = train(trainer, 1, first=2)[0]
    trainer.save_checkpoint(folder)
    assert trainer.load_checkpoint(folder)[0] == f"{folder}/global_step3"
    trainer.close()
    return str(caught.value), loss


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "behind"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.filterwarnings("default")
def test_no_room_on_one_rank(
    teams: dict[int, Team], tmp_path: Path, rank: int, asynchronous: bool
) -> None:
    answers = teams[2].run(fills_up, folder=str(tmp_path), rank=rank, asynchronous=asynchronous)
    for sentence, _ in answers:
        assert f"rank {rank}" in sentence and "File too large" in sentence
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def keeps(folder: str) -> list[str]:
    trainer = start(config(1))
    for step in range(5):
        train(trainer, 1, first=step)
        trainer.save_checkpoint(folder, keep_last=2, asynchronous=step % 2 == 0)
        if step == 1:
            trainer.save_checkpoint(folder, tag="mine", save_latest=False)
            if trainer.global_rank == 0:
                (Path(folder) / "global_step1x").mkdir()
                (Path(folder) / "global_step0").mkdir()
    trainer.close()
    return sorted(each.name for each in Path(folder).iterdir())


def test_only_own_whole_older_ones_without_a_name_are_removed(
    teams: dict[int, Team], tmp_path: Path
) -> None:
    names = ["global_step0", "global_step1x", "global_step4", "global_step5", "latest", "mine"]
    teams[2].run(keeps, folder=str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == names


def exports(folder: str) -> bool:
    trainer = start(config(3))
    train(trainer, 1)
    trainer.save_16bit_model(folder)
    whole = trainer.consolidated_state_dict()
    if trainer.global_rank:
        return True
    read = torch.load(Path(folder) / "pytorch_model.bin", weights_only=True)
    return all(torch.equal(read[name], value) for name, value in whole.items())


def test_a_whole_model_for_others(teams: dict[int, Team], tmp_path: Path) -> None:
    assert teams[2].run(exports, folder=str(tmp_path)) == [True, True]
