"""The columns of a shard of packed contexts: written by the corpus, read by training and evaluation.

A row is one context. Columns of lists have one entry for each segment of the context, in order.
"""

import numpy as np
import pyarrow as pa

from smelt.artifacts import field

CONTEXT = "context"
TOKENS = "tokens"
SEGMENTS = "segments"
DOCUMENTS = "documents"
SOURCES = "sources"
CATEGORIES = "categories"
PIECES = "pieces"
CUT = "cut"
DOCUMENT_TOKENS = "document_tokens"  # of the held-out sample alone


def schema(context: int, kind: np.dtype, heldout: bool = False) -> pa.Schema:
    """The columns of a shard whose contexts have `context` tokens of the integer type `kind`.

    The held-out sample (`heldout`) has the documents' own lengths as well.
    """
    fields = [
        field(CONTEXT, pa.int32(), "index of the context in its stream"),
        field(TOKENS, pa.list_(pa.from_numpy_dtype(kind), context), "token ids; behind the last segment: padding"),
        field(SEGMENTS, pa.list_(pa.int32()), "tokens in each segment, in order, BOS included"),
        field(DOCUMENTS, pa.list_(pa.string()), "id of each segment's document"),
        field(SOURCES, pa.list_(pa.string()), "source of each segment"),
        field(CATEGORIES, pa.list_(pa.string()), "category of each segment"),
        field(PIECES, pa.list_(pa.int32()), "number of the piece of a cut document, 0 for a whole one"),
        field(CUT, pa.list_(pa.bool_()), "whether the segment is a piece of a cut document"),
    ]
    if heldout:
        fields.append(field(DOCUMENT_TOKENS, pa.list_(pa.int32()), "tokens of the whole document, without BOS"))
    return pa.schema(fields)
