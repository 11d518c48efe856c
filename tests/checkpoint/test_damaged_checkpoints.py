"""A checkpoint that is damaged or foreign is refused with file and reason; nothing has changed."""

import contextlib
import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint import load
from torch.optim import SGD

from engine.checkpoint.documents import open_checkpoint
from engine.checkpoint.opening import DamagedCheckpointError
from engine.checkpoint.plain import from_plain, to_plain
from engine.checkpoint.reading import CheckpointReader
from probe.errors import ProbeError
from tests.checkpoint.trained import begin, train_to
from tests.engine.cases import config, everything, start, train
from tests.engine.models import make_odd
from tests.engine.team import Team

TAG = "global_step2"
DOCUMENT = f"{TAG}/checkpoint.json"


def make(folder: str) -> None:
    trainer = start(config(2))
    train(trainer, 2)
    trainer.save_checkpoint(folder, client_state={"epoch": 3})


@pytest.fixture(scope="session")
def sound(teams: dict[int, Team], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    teams[2].run(make, folder=str(folder))
    return folder


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: str, **how: Any) -> str:
    """The sentence with which all ranks refuse it; the engine is as it was and trains on."""
    trainer = start(config(3), make=how.pop("make", make_odd), **how)
    if how.get("optimizer") is None:
        train(trainer, 1)
    before = everything(trainer), trainer.global_steps, torch.get_rng_state()
    try:
        trainer.load_checkpoint(folder)
    except ProbeError as error:
        sentence = str(error)
    else:
        raise AssertionError("it was loaded")
    after = everything(trainer), trainer.global_steps, torch.get_rng_state()
    assert all(torch.equal(one, other) for one, other in zip(before[0], after[0], strict=True))
    assert before[1] == after[1] and torch.equal(before[2], after[2])
    return sentence


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Another main document under a right checksum: not damaged, but written by someone else."""
    content = json.loads(path.read_bytes())["content"]
    change(content)
    raw = json.dumps(content, separators=(",", ":")).encode()
    path.write_bytes(b'{"crc32":%d,"content":%s}' % (zlib.crc32(raw), raw))


def vanish(path: Path) -> None:
    path.unlink()


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE = {
    "data flipped": (f"{TAG}/rank_00001.data", lambda path: flip(path, 100), "checksum"),
    "data cut": (f"{TAG}/rank_00000.data", halve, "bytes instead of"),
    "data missing": (f"{TAG}/rank_00001.data", vanish, "cannot be read"),
    "data a pipe": (f"{TAG}/rank_00001.data", become_a_pipe, "bytes instead of"),
    "rank flipped": (f"{TAG}/rank_00001.json", lambda path: flip(path, 60), "checksum"),
    "rank cut": (f"{TAG}/rank_00001.json", halve, "bytes instead of"),
    "rank missing": (f"{TAG}/rank_00000.json", vanish, "cannot be read"),
    "rank a pipe": (f"{TAG}/rank_00000.json", become_a_pipe, "no plain file"),
    "main flipped": (DOCUMENT, lambda path: flip(path, 200), ""),
    "main cut": (DOCUMENT, halve, "no document"),
    "main missing": (DOCUMENT, vanish, "no whole checkpoint"),
    "version": (DOCUMENT, lambda p: rewrite(p, lambda c: c.update(version=9)), "version 9"),
    "kind": (DOCUMENT, lambda p: rewrite(p, lambda c: c.update(kind="x")), "not written by"),
    "field": (DOCUMENT, lambda p: rewrite(p, lambda c: c.update(counters=7)), "not what this"),
    "ranks": (DOCUMENT, lambda p: rewrite(p, lambda c: c.update(world=3)), "other files"),
    "latest": ("latest", lambda path: path.write_text("../elsewhere"), "cannot be the tag"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(teams: dict[int, Team], copy: Path, kind: str) -> None:
    name, damage, words = DAMAGE[kind]
    damage(copy / name)
    sentences = teams[2].run(refused, folder=str(copy))
    for sentence in sentences:
        assert words in sentence
        if kind != "latest":
            assert name.removesuffix("/checkpoint.json") in sentence


def other_shape() -> Any:
    model = make_odd()
    model.unused = torch.nn.Linear(7, 4)
    return model


def other_names() -> Any:
    model = make_odd()
    model.further = torch.nn.Linear(7, 4)
    return model


def other_buffer() -> Any:
    model = make_odd()
    model.register_buffer("seen", torch.zeros(3))
    return model


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"make": other_shape}, ["unused.weight", "3×7", "4×7"]),
        ({"make": other_names}, ["further.weight", "not in it"]),
        ({"make": other_buffer}, ["buffer seen", "not in it"]),
        ({"optimizer": SGD}, ["AdamW", "SGD", "load_optimizer_states=False"]),
    ],
    ids=["shape", "names", "buffer", "optimizer"],
)
def test_another_model_is_named(
    teams: dict[int, Team], sound: Path, how: dict[str, Any], words: list[str]
) -> None:
    for sentence in teams[2].run(refused, folder=str(sound), **how):
        assert all(word in sentence for word in words), sentence


class Trap:
    """What runs code as soon as it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    "name",
    [
        "latest",
        DOCUMENT,
        f"{TAG}/rank_00000.json",
        f"{TAG}/rank_00000.data",
        f"{TAG}/.metadata",
        f"{TAG}/__0_0.distcp",
    ],
)
def test_a_pickle_is_never_run(
    teams: dict[int, Team], copy: Path, tmp_path: Path, name: str
) -> None:
    trap = pickle.dumps(Trap(tmp_path / "run"))
    # GIVEN a pickle that does what it says when it is loaded
    pickle.loads(trap)
    (tmp_path / "run").rmdir()
    if name.startswith(f"{TAG}/rank_00000.data"):
        trap = trap.ljust((copy / name).stat().st_size, b"\0")
    (copy / name).write_bytes(trap)
    strange = name.endswith((".metadata", ".distcp"))
    if strange:
        (copy / DOCUMENT).unlink()
    teams[2].run(refused, folder=str(copy))
    assert not (tmp_path / "run").exists()


def files_of(folder: Path) -> list[Path]:
    return sorted((folder / TAG).iterdir())


def read_all(folder: Path) -> list[Any]:
    checkpoint = open_checkpoint(folder / TAG)
    reader = CheckpointReader(checkpoint)
    reader.verify(share=0, shares=1)
    return [checkpoint.main, checkpoint.ranks]


@contextlib.contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


@given(data=st.data())
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_bytes_there_are_it_is_refused_or_the_same(
    copy: Path, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(files_of(copy)))
    content = path.read_bytes()
    kind = data.draw(st.sampled_from(["cut", "flip", "random", "insert"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if kind == "cut":
        other = content[:at]
    elif kind == "flip":
        other = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))])
        other += content[at + 1 :]
    elif kind == "insert":
        other = content[:at] + data.draw(st.binary(min_size=1, max_size=8)) + content[at:]
    else:
        other = data.draw(st.binary(max_size=200))
    sound = read_all(copy)
    with replaced(path, other):
        try:
            got = read_all(copy)
        except DamagedCheckpointError as error:
            assert path.name in str(error) or "rank_" in str(error)
        else:
            assert got == sound, "it was taken for another checkpoint"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple)
    | st.dictionaries(st.text() | st.integers(-5, 5), inner),
    max_leaves=20,
)  # fmt: skip


@given(value=JSON)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    through = from_plain(json.loads(json.dumps(to_plain(value, "value"))))
    assert through == value and type(through) is type(value)


@given(plain=st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner)
    | st.dictionaries(st.sampled_from(["$float", "$bytes", "$tuple", "$items", "$x", "a"]), inner),
))  # fmt: skip
def test_what_nobody_wrote_is_a_value_error_or_a_value(plain: Any) -> None:
    with contextlib.suppress(ValueError, TypeError):
        from_plain(plain)


def unfit_client_state(folder: str) -> str:
    trainer = start(config(1))
    with pytest.raises(ProbeError) as caught:
        trainer.save_checkpoint(folder, client_state={"run": {"model": torch.ones(2)}})
    assert not list(Path(folder).glob("*step*"))
    return str(caught.value)


def test_client_state_that_is_no_json_is_named(teams: dict[int, Team], tmp_path: Path) -> None:
    for sentence in teams[2].run(unfit_client_state, folder=str(tmp_path)):
        assert "client_state.run.model" in sentence and "Tensor" in sentence


def in_the_middle(folder: str) -> str:
    trainer, loader = begin(1)
    train_to(trainer, loader, 1)
    (tokens,) = next(iter(loader))
    trainer.backward(trainer(tokens, with_all=True))
    with pytest.raises(ProbeError) as caught:
        trainer.save_checkpoint(folder)
    trainer.step()
    return str(caught.value)


def test_a_step_under_way_is_not_saved(teams: dict[int, Team], tmp_path: Path) -> None:
    assert "engine.step()" in teams[2].run(in_the_middle, folder=str(tmp_path))[0]


def nothing_there(folder: str) -> Any:
    return start(config(1)).load_checkpoint(folder)


def test_an_empty_folder_is_no_error(teams: dict[int, Team], tmp_path: Path) -> None:
    assert teams[2].run(nothing_there, folder=str(tmp_path)) == [(None, {})] * 2


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_itself_can_read_it(sound: Path) -> None:
    checkpoint = open_checkpoint(sound / TAG)
    shape = checkpoint.main.parameters["blocks.0.up.weight"].shape
    state = {"master.blocks.0.up.weight": torch.zeros(torch.Size(shape).numel())}
    load(state, storage_reader=CheckpointReader(checkpoint), no_dist=True)
    assert state["master.blocks.0.up.weight"].abs().min() > 0
