"""Where things lie in a run directory; every path in the program is built from these names.

runs/<id>/
  manifest.json
  remarks.json
  output.log
  node_00001.json node_00001.log …
  rank_00000/ header.json heartbeat steps.jsonl comm.jsonl … trace_<step>.json.gz
  tables/     steps.parquet comm.parquet …
  checkpoints/ latest global_step120/ …
"""

import re

FORMAT_MAJOR = 1
FORMAT_MINOR = 0
FORMAT_VERSION = f"{FORMAT_MAJOR}.{FORMAT_MINOR}"

MANIFEST = "manifest.json"
REMARKS = "remarks.json"
OUTPUT = "output.log"
HEADER = "header.json"
HEARTBEAT = "heartbeat"
TABLES_DIR = "tables"
CHECKPOINTS_DIR = "checkpoints"
OFFLOAD_DIR = "offload"
"""What rests on disk while a run trains, if no other folder was named; gone when it ends."""
CHECKPOINT_DOCUMENT = "checkpoint.json"
"""What makes a folder a checkpoint; written last, so it is there only in a whole one."""
LATEST_CHECKPOINT = "latest"
"""Beside checkpoints: the name of the one to load."""
TEMPORARY_SUFFIX = ".tmp"
DAMAGED_SUFFIX = ".damaged"
HEARTBEAT_BYTES = 512
"""A heartbeat is one line of this fixed length, so that rewriting it in place is one write."""
LONGEST_LINE_BYTES = 1 << 20
"""No rank writes a longer line, so that a reader need not hold one."""

_NODE = re.compile(r"node_(\d{5,9})\.json")
_RANK_DIR = re.compile(r"rank_(\d{5,9})")
_TRACE = re.compile(r"trace_(\d{1,12})\.(json\.gz|json|parquet)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def rank_dir(rank: int) -> str:
    """Name of the folder of a rank."""
    return f"rank_{rank:05d}"


def rank_of(name: str) -> int | None:
    """The rank whose folder has this name; None if it is no rank's folder."""
    match = _RANK_DIR.fullmatch(name)
    if match is None:
        return None
    rank = int(match[1])
    return rank if rank_dir(rank) == name else None


def node_document(node: int) -> str:
    """Name of what the launcher of a machine says that joined the run."""
    return f"node_{node:05d}.json"


def node_output(node: int) -> str:
    """Name of what the ranks of such a machine printed."""
    return f"node_{node:05d}.log"


def node_of(name: str) -> int | None:
    """The machine whose document has this name; None if it is no such document."""
    match = _NODE.fullmatch(name)
    return int(match[1]) if match and node_document(int(match[1])) == name else None


def trace_name(step: int) -> str:
    """Name of the profiled window that begins at a step."""
    return f"trace_{step}.json.gz"


def trace_parquet_name(step: int) -> str:
    """Name of the distilled form of the profiled window that begins at a step."""
    return f"trace_{step}.parquet"


def step_of_trace(name: str) -> int | None:
    """The first step of the profiled window with this file name; None if it is no trace."""
    match = _TRACE.fullmatch(name)
    return int(match[1]) if match else None


def slug(text: str) -> str:
    """A text as part of a file name: nothing that a shell, a path or a browser could misread."""
    return _UNSAFE.sub("-", text).strip("-.")[:48]


def supports(format_version: str) -> bool:
    """Whether a run of this version can be read: the same major does."""
    return format_version.split(".", 1)[0] == str(FORMAT_MAJOR)
