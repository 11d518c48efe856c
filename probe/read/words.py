"""Words in tables: in memory each is there once a column, and a row holds its number.

A run of many ranks says the same dozen words a million times over; as numbers they are read,
filtered and grouped in a fraction of the time and memory. Files spell them out, so that any
program reads them.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WORDS = pa.dictionary(pa.int32(), pa.string())
"""The type of a column of words in memory."""
SHORT_BYTES = 256
"""Words that are shorter all together are not added up row by row."""


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as files hold them."""
    plain = [item.with_type(pa.string()) if item.type == WORDS else item for item in schema]
    return pa.schema(plain, metadata=schema.metadata)


def spell_out(rows: pa.Table) -> pa.Table:
    """The rows as files hold them."""
    return rows.cast(plain_schema(rows.schema))


def join(parts: Sequence[pa.Table]) -> pa.Table:
    """One table of all rows, in which a word has the same number throughout a column."""
    return pa.concat_tables(parts).unify_dictionaries()


def number_words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of anything that can be a word as one of words."""
    return column if column.type == WORDS else column.cast(pa.string()).dictionary_encode()


def repeat_word(word: str | None, count: int) -> pa.ChunkedArray:
    """A column that says the same in every row."""
    numbers = pa.nulls(count, pa.int32()) if word is None else pa.array(np.zeros(count, np.int32))
    return pa.chunked_array([pa.DictionaryArray.from_arrays(numbers, [word or ""])])


def spelled_bytes(rows: pa.Table) -> int:
    """What rows take once their words are spelled out; ValueError if they cannot be."""
    return sum(
        sum(map(_spelled_bytes, column.chunks))
        if pa.types.is_dictionary(column.type)
        else int(column.nbytes)
        for column in rows.columns
    )


def held_bytes(batch: pa.RecordBatch) -> int:
    """What rows take that were made here: words count as if spelled out, unless they are short."""
    return sum(
        _spelled_bytes(column)
        if column.type == WORDS and column.dictionary.nbytes > SHORT_BYTES
        else int(column.nbytes)
        for column in batch.columns
    )


def _spelled_bytes(coded: pa.DictionaryArray) -> int:
    coded.dictionary.validate(full=True)
    numbers = coded.indices.drop_null()
    if not len(numbers):
        return 0
    bounds, known = pc.min_max(numbers).as_py(), len(coded.dictionary)
    if bounds["min"] < 0 or bounds["max"] >= known:
        raise ValueError(f"a row names a word that is not among its {known}")
    uses = np.bincount(numbers.to_numpy(), minlength=known)
    return int(uses @ pc.fill_null(pc.binary_length(coded.dictionary), 0).to_numpy())
