"""Columns that requests and scores share: which item of which task is asked, with which demonstrations."""

import pyarrow as pa

from smelt.artifacts import field

ITEM_FIELDS = (
    field("task", pa.string(), "name of the task"),
    field("shots", pa.int32(), "demonstrations asked for"),
    field("seed", pa.int32(), "evaluation seed of the demonstrations; empty where none are drawn"),
    field("item", pa.int32(), "row of the item in the task's file, from 0"),
    field("item_id", pa.string(), "digest of the item's content"),
    field("category", pa.string(), "the item's category in a partitioned task, else empty"),
)
ITEM_COLUMNS = tuple(column.name for column in ITEM_FIELDS)
