"""In which run directory the ranks of several machines record: they tell each other when they meet.

The machine that created the directory passes its name through the store that torch.distributed.run
keeps for the ranks, so whoever trains together records together: in whatever order machines start,
however late one joins, whoever was started in the same folder before. The folder itself is trusted
with nothing but making a directory.
"""

import logging
import os
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
from torch._C._distributed_c10d import TCPStore
from torch.distributed import DistError

from probe.record.replacing import replace_file
from probe.schema.codec import decode_document, encode_document
from probe.schema.documents import Manifest, NodeFacts
from probe.schema.handover import Handover
from probe.schema.layout import MANIFEST

logger = logging.getLogger("zeroprobe")

MEETING = timedelta(seconds=120)
_KEY = "zeroprobe/run"
_START_VARIABLE = "TORCHELASTIC_RESTART_COUNT"
_ASK_EVERY_S = 0.02


def met(handover: Handover) -> Handover:
    """What this rank shall do, now that it knows where to record."""
    if not handover.many_nodes:
        return handover
    try:
        store = _store()
        _agree_on_start(store)
        if handover.runs_dir is None and handover.run_dir is None:
            return handover  # Nothing is recorded.
        if handover.run_dir is not None:
            store.set(_KEY, _word_on(Path(handover.run_dir)).decode())
            return handover
        return _joined(handover, store)
    except (DistError, OSError, RuntimeError) as error:
        logger.warning(
            "rank %s is not recorded: it was not told of a run directory (%s)",
            os.environ.get("RANK"),
            error,
        )
        return msgspec.structs.replace(handover, run_dir=None)


def _joined(handover: Handover, store: TCPStore) -> Handover:
    """Record into the run that another machine began."""
    assert handover.runs_dir is not None and handover.word_file is not None, "set by the launcher"
    word_file = Path(handover.word_file)
    if word := word_file.read_bytes():
        # This machine was told before its ranks were started anew; others may ask now.
        store.set(_KEY, word.decode())
    else:
        store.wait([_KEY], MEETING)
        word = store.get(_KEY)
    run, _ = decode_document(word, NodeFacts)
    path = Path(handover.runs_dir) / run.run_id
    # Made here as well: a folder that is not shared, or does not show it yet, has none.
    path.mkdir(parents=True, exist_ok=True)
    if os.environ.get("LOCAL_RANK") == "0":
        replace_file(word_file, word)
    return msgspec.structs.replace(handover, run_dir=str(path), job=path.name)


def _agree_on_start(store: TCPStore) -> None:
    """Give all ranks the same number of this start, in the variable where each is told its own.

    Machines count only the failures of their own ranks. Those whose ranks were started anew because
    others failed would look for their peers where those had been before.
    """
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank:
        # A word that nobody said before, so that no answer of an earlier start is taken for ours.
        mine = uuid4().hex
        store.set(f"{_KEY}/hello/{rank}", mine)
        store.wait([f"{_KEY}/welcome/{mine}"], MEETING)
        number = int(store.get(f"{_KEY}/welcome/{mine}"))
        store.set(f"{_KEY}/here/{number}/{rank}", mine)
    else:
        number = store.add(f"{_KEY}/starts", 1) - 1
        _welcome(store, number, set(range(1, world)))
    os.environ[_START_VARIABLE] = str(number)


def _welcome(store: TCPStore, number: int, missing: set[int]) -> None:
    """Tell every other rank which start this is, until each has said that it heard."""
    deadline_s = time.monotonic() + MEETING.total_seconds()
    while missing:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"ranks {sorted(missing)} did not come")
        for rank in missing:
            if store.check([f"{_KEY}/hello/{rank}"]):
                word = store.get(f"{_KEY}/hello/{rank}").decode()
                store.set(f"{_KEY}/welcome/{word}", str(number))
        missing = {rank for rank in missing if not store.check([f"{_KEY}/here/{number}/{rank}"])}
        time.sleep(_ASK_EVERY_S)


def _word_on(run_dir: Path) -> bytes:
    """Which run it is: its name, and the moment it began, to know it from a namesake."""
    manifest, _ = decode_document((run_dir / MANIFEST).read_bytes(), Manifest)
    return encode_document(NodeFacts(run_id=run_dir.name, started_ns=manifest.started_ns))


def _store() -> TCPStore:
    """The store of those that started the ranks."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True):
        raise RuntimeError("torch.distributed.run shares no store with its ranks")
    return TCPStore(address, port, is_master=False, timeout=MEETING)
