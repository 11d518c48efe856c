"""What a checkpoint says of itself: one document for the whole, one for what each rank wrote.

    <folder>/
      latest                      the tag to load when none is named
      global_step120/
        checkpoint.json           what was trained, where it stood, checksums of the rest
        rank_00000.json           the records of this rank's data, its numbers and its own state
        rank_00000.data           the records, one after another, raw and little-endian

torch.distributed.checkpoint would keep all this in a pickle (`.metadata`), and whoever loads a
pickle of a stranger runs the stranger's code. These are JSON, decoded into the types below and
nothing else, so a checkpoint from anywhere can be opened: at worst it is refused. Each record has a
checksum, each rank's document is vouched for by the main one, and that carries its own.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.checkpoint.opening import DamagedCheckpointError, damaged, read_whole
from engine.checkpoint.plain import from_plain
from probe.schema.layout import CHECKPOINT_DOCUMENT

KIND = "zeroprobe checkpoint"
VERSION = 1
LARGEST_DOCUMENT_BYTES = 1 << 30
MOST_RANKS = 1 << 20


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that are written whole."""


Kind = TypeVar("Kind", bound=Document)


class Record(Document, frozen=True, kw_only=True):
    """A run of elements of one tensor, somewhere in a rank's data."""

    tensor: str
    start: int
    """Of the flattened tensor."""
    elements: int
    dtype: str
    at: int
    """Of the file, in bytes; records lie one after another."""
    size_bytes: int
    crc32: int


class Scalar(Document, frozen=True, kw_only=True):
    """A state that is one number for a whole parameter, a step counter for example."""

    value: Any
    dtype: str


class RankDocument(Document, frozen=True, kw_only=True):
    """What one rank wrote."""

    rank: int
    records: list[Record]
    tensor_elements: dict[str, int]
    """The size of every whole tensor that a record is a part of."""
    scalars: dict[str, dict[str, Scalar]]
    """By parameter and by name of the state."""
    own: dict[str, Any]
    """What belongs to this rank alone, plain: random numbers, what it was asked to remember."""


class FileFacts(Document, frozen=True, kw_only=True):
    """How long a file is, and the checksum of its bytes where records have none of their own."""

    size_bytes: int
    crc32: int | None = None


class ParameterFacts(Document, frozen=True, kw_only=True):
    """One parameter of the model."""

    shape: list[int]
    trained: bool


class Scaling(Document, frozen=True, kw_only=True):
    """Where the loss scaler stood."""

    dynamic: bool
    scale: float
    hysteresis_left: int
    iteration: int
    last_overflow: int
    last_good: int | None


class Counters(Document, frozen=True, kw_only=True):
    """How far the training was."""

    global_steps: int
    skipped_steps: int
    micro_steps: int
    last_applied_step: int | None


class Schedule(Document, frozen=True, kw_only=True):
    """A learning-rate schedule, by its class and its own state."""

    kind: str
    state: Any


class OptimizerFacts(Document, frozen=True, kw_only=True):
    """An optimizer, by its class, and the settings of its parameter groups."""

    kind: str
    groups: list[Any]


class MainDocument(Document, frozen=True, kw_only=True):
    """The whole, written last."""

    kind: str
    version: int
    tag: str
    job: str
    """Who wrote it: the same for all that one start of a job saves."""
    world: int
    stage: int
    precision: str
    accumulation_steps: int
    parameters: dict[str, ParameterFacts]
    buffers: dict[str, list[int]]
    counters: Counters
    scaling: Scaling
    optimizer: OptimizerFacts | None
    schedule: Schedule | None
    client_state: Any
    files: dict[str, FileFacts]


class _Sealed(msgspec.Struct, kw_only=True):
    """Any text of JSON under a checksum of its bytes."""

    crc32: int
    content: msgspec.Raw


class _Herald(msgspec.Struct, kw_only=True):
    """What has to be right before anything else is looked at."""

    kind: str = ""
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class Opened:
    """All documents of one checkpoint, checked against each other; no tensor was read."""

    path: Path
    main: MainDocument
    ranks: tuple[RankDocument, ...]

    @property
    def data_bytes(self) -> int:
        """The size of the tensors."""
        return sum(self.main.files[data_name(rank)].size_bytes for rank in range(self.main.world))


def document_name(rank: int) -> str:
    """The file with what a rank says."""
    return f"rank_{rank:05d}.json"


def data_name(rank: int) -> str:
    """The file with what a rank holds."""
    return f"rank_{rank:05d}.data"


def encode(document: Document) -> bytes:
    """As bytes of JSON."""
    return msgspec.json.encode(document)


def encode_main(document: MainDocument) -> bytes:
    """As bytes of JSON under their checksum."""
    content = encode(document)
    return msgspec.json.encode(_Sealed(crc32=zlib.crc32(content), content=msgspec.Raw(content)))


def open_checkpoint(path: Path) -> Opened:
    """Read and check all documents of the checkpoint in this folder."""
    main = read_main(path)
    expected = {name(rank) for rank in range(main.world) for name in (document_name, data_name)}
    if set(main.files) != expected:
        odd = sorted(set(main.files) ^ expected)[0]
        raise damaged(
            path / CHECKPOINT_DOCUMENT,
            f"it lists other files than those of {main.world} ranks: {odd}",
        )
    ranks = tuple(_read_rank(path, main, rank) for rank in range(main.world))
    return Opened(path=path, main=main, ranks=ranks)


def read_main(path: Path) -> MainDocument:
    """The main document alone."""
    file = path / CHECKPOINT_DOCUMENT
    raw = read_whole(file, limit_bytes=LARGEST_DOCUMENT_BYTES)
    try:
        sealed = msgspec.json.decode(raw, type=_Sealed)
        if zlib.crc32(sealed.content) != sealed.crc32:
            raise damaged(file, "its checksum is wrong")
        herald = msgspec.json.decode(sealed.content, type=_Herald)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(file, f"it is no document of a checkpoint ({error})") from error
    if herald.kind != KIND:
        raise damaged(file, "it was not written by this engine")
    if herald.version != VERSION:
        raise DamagedCheckpointError(
            f"{file} is of version {herald.version} and this engine reads version {VERSION};"
            " load it with the version that saved it"
        )
    main = _decoded(file, bytes(sealed.content), MainDocument)
    if not 1 <= main.world <= MOST_RANKS:
        raise damaged(file, f"it speaks of {main.world} ranks")
    return main


def _read_rank(path: Path, main: MainDocument, rank: int) -> RankDocument:
    file, facts = path / document_name(rank), main.files[document_name(rank)]
    raw = read_whole(file, limit_bytes=LARGEST_DOCUMENT_BYTES)
    if len(raw) != facts.size_bytes:
        raise damaged(file, f"it has {len(raw)} bytes instead of {facts.size_bytes}")
    if zlib.crc32(raw) != facts.crc32:
        raise damaged(file, "its checksum is wrong")
    document = _decoded(file, raw, RankDocument)
    if document.rank != rank:
        raise damaged(file, f"it is that of rank {document.rank}")
    at = 0
    for record in document.records:
        if record.at != at or record.elements < 1 or record.size_bytes < 1 or record.start < 0:
            raise damaged(file, f"the records of {record.tensor} do not fit together")
        at += record.size_bytes
    data = path / data_name(rank)
    try:
        held = data.stat().st_size
    except OSError as error:
        raise damaged(data, f"it cannot be read ({error.strerror})") from error
    if not held == at == main.files[data_name(rank)].size_bytes:
        raise damaged(data, f"it has {held} bytes instead of {at}")
    return document


def _decoded(file: Path, raw: bytes, kind: type[Kind]) -> Kind:
    try:
        document = msgspec.json.decode(raw, type=kind)
        # Here, so that nothing else need fear a value that nobody wrote.
        for value in _plain_parts(document):
            from_plain(value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise damaged(file, f"it is not what this engine writes ({error})") from error
    return document


def _plain_parts(document: Document) -> list[Any]:
    if isinstance(document, RankDocument):
        return [document.own]
    if isinstance(document, MainDocument):
        schedule = [] if document.schedule is None else [document.schedule.state]
        groups = [] if document.optimizer is None else document.optimizer.groups
        return [document.client_state, *schedule, *groups]
    return []
