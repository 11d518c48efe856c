"""A digest of the values of a table, whatever chunks and buffers they happen to lie in.

Sealing compares what it wrote with what it meant by this: two tables with the same digest hold the
same bits in the same order, nan and null included.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def digest(table: pa.Table) -> bytes:
    """The digest of all columns in order."""
    total = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        if column.num_chunks:
            _add(total, pa.concat_arrays(column.chunks))
    return total.digest()


def _add(total: "hashlib.blake2b", array: pa.Array) -> None:
    total.update(_values(array.is_null()).tobytes())
    if pa.types.is_list(array.type):
        total.update(_values(pc.fill_null(pc.list_value_length(array), 0)).tobytes())
        _add(total, pc.list_flatten(array))
    elif pa.types.is_string(array.type):
        words = pc.dictionary_encode(pc.fill_null(array, ""))
        total.update(repr(words.dictionary.to_pylist()).encode())
        total.update(_values(words.indices).tobytes())
    elif pa.types.is_floating(array.type):
        total.update(_values(pc.fill_null(array, 0.0)).view(np.int64).tobytes())
    else:
        total.update(_values(pc.fill_null(array, pa.scalar(0).cast(array.type))).tobytes())


def _values(array: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.generic]]":
    values: np.ndarray[tuple[int], np.dtype[np.generic]] = array.to_numpy(zero_copy_only=False)
    return values
