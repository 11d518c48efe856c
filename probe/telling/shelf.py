"""The runs below several folders, each under the short key that links and choices use."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from probe.read.discovery import run_paths


def shelve(folders: Iterable[Path]) -> Mapping[str, Path]:
    """Keys and directories; a key is the run's name, with its folder's where two have the same."""
    paths = [path for folder in dict.fromkeys(folders) for path in run_paths(folder)]
    names = Counter(path.name for path in paths)
    shelf: dict[str, Path] = {}
    for path in paths:
        key = path.name if names[path.name] == 1 else f"{path.parent.name}/{path.name}"
        # Folders of the same name hold runs of the same name: the whole path tells them apart.
        shelf[key if key not in shelf else str(path)] = path
    return shelf
