"""What a run is made of at this moment, so cheaply that it can be asked before every look.

Two equal fingerprints mean the same tables: files are appended to, or replaced, and either changes
inode, size or time. Heartbeats are left out, for they change with every step and say nothing that a
table holds.
"""

import hashlib
import os
from pathlib import Path

from probe.read.inside import rank_folders
from probe.schema.layout import FORMAT_VERSION, HEARTBEAT, MANIFEST, TABLES_DIR, rank_dir


def fingerprint(root: Path) -> str:
    """Of the format that is read and of every file's name, inode, size and time."""
    files = _of_file(root, MANIFEST)
    try:
        ranks = rank_folders(root)[0]
    except OSError:
        ranks = ()
    for folder in (TABLES_DIR, *map(rank_dir, ranks)):
        files += _of_folder(root, folder)
    return hashlib.blake2b(repr((FORMAT_VERSION, files)).encode(), digest_size=16).hexdigest()


def _of_file(root: Path, name: str) -> list[tuple[str, int, int, int]]:
    try:
        facts = (root / name).lstat()
    except OSError:
        return []
    return [(name, facts.st_ino, facts.st_size, facts.st_mtime_ns)]


def _of_folder(root: Path, folder: str) -> list[tuple[str, int, int, int]]:
    found = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.name == HEARTBEAT:
                    continue
                facts = entry.stat(follow_symlinks=False)
                name = f"{folder}/{entry.name}"
                found.append((name, facts.st_ino, facts.st_size, facts.st_mtime_ns))
    except OSError:
        return found
    return sorted(found)
