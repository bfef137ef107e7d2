"""The table boundary, schemas, vocabularies, encoded logs, time splits, sources, and the simulator."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monocal.data.batches import iterate_batches as iterate_batches
    from monocal.data.encoded_log import EncodedLog as EncodedLog
    from monocal.data.encoder import encode_log as encode_log
    from monocal.data.schema import LogSchema as LogSchema
    from monocal.data.sources import SOURCES as SOURCES
    from monocal.data.splits import split_by_group as split_by_group
    from monocal.data.splits import split_by_share as split_by_share
    from monocal.data.splits import split_by_time as split_by_time
    from monocal.data.tables import open_table as open_table
    from monocal.data.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "LogSchema": "schema",
    "encode_log": "encoder",
    "EncodedLog": "encoded_log",
    "SOURCES": "sources",
    "split_by_share": "splits",
    "split_by_time": "splits",
    "split_by_group": "splits",
    "iterate_batches": "batches",
    "Vocabulary": "vocabulary",
    "open_table": "tables",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that light parts do not load Arrow."""
    if name not in _HOMES:
        raise AttributeError(f"module 'monocal.data' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(import_module(f"monocal.data.{_HOMES[name]}"), name)
