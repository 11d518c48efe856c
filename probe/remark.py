"""People's own tags and notes of a run: a small file beside its manifest, replaced as a whole.

The manifest belongs to the launcher and is never touched. Where `remarks.json` says something, it
holds in place of the manifest's tags and notes; each change can be taken back.
"""

from pathlib import Path

import msgspec

from probe.errors import RunStateError
from probe.read.documents import read_manifest
from probe.read.inside import RefusedFileError, read_small
from probe.record.replacing import replace_file
from probe.schema.codec import decode_document, encode_document
from probe.schema.documents import Manifest, Remark, Remarks
from probe.schema.layout import REMARKS

LARGEST_BYTES = 1 << 20
MOST_UNDONE = 20
MOST_TAGS = 32
LONGEST_TAG = 64
LONGEST_NOTES = 10_000


def remarks_of(root: Path) -> Remarks:
    """What was written after the start; nothing where the file is absent or damaged."""
    try:
        content = read_small(root, REMARKS, limit_bytes=LARGEST_BYTES)
    except (OSError, RefusedFileError):
        return Remarks()
    if len(content) > LARGEST_BYTES:
        return Remarks()
    return decode_document(content, Remarks)[0]


def remark_of(root: Path, manifest: Manifest) -> Remark:
    """The tags and notes that hold now."""
    return remarks_of(root).now or Remark(tags=manifest.tags, notes=manifest.notes)


def write_remark(root: Path, remark: Remark) -> None:
    """Replace tags and notes; what held before can be brought back."""
    checked = Remark(
        tags=[tag[:LONGEST_TAG] for tag in dict.fromkeys(remark.tags) if tag][:MOST_TAGS],
        notes=remark.notes[:LONGEST_NOTES],
    )
    held = remarks_of(root)
    if checked == remark_of(root, read_manifest(root)[0] or Manifest()):
        return
    _write(root, Remarks(now=checked, before=[*held.before, held.now][-MOST_UNDONE:]))


def undo_remark(root: Path) -> None:
    """Bring back what held before the last change; nothing happens where nothing was changed."""
    held = remarks_of(root)
    if held.before:
        *earlier, last = held.before
        _write(root, msgspec.structs.replace(held, now=last, before=earlier))


def _write(root: Path, remarks: Remarks) -> None:
    try:
        replace_file(root / REMARKS, encode_document(remarks))
    except OSError as error:
        raise RunStateError(
            f"{root / REMARKS} cannot be written ({error.strerror}); tags and notes stay as they "
            "were."
        ) from error
