"""One file per data set in its raw format; what is exported here is what commands and studies know."""

from monocal.data.sources.aliccp import AliCCP
from monocal.data.sources.avazu import Avazu
from monocal.data.sources.base import Source, SourceStream
from monocal.data.sources.criteo import Criteo
from monocal.data.sources.kuairand import KuaiRand
from monocal.data.sources.kuairand_pure import KuaiRandPure
from monocal.data.sources.retrosheet import Retrosheet
from monocal.data.sources.table import TableSource

SOURCES: dict[str, type[Source]] = {
    source.name: source for source in (Avazu, AliCCP, Criteo, KuaiRand, KuaiRandPure, Retrosheet)
}
"""Data sets by name; any other table is read by `TableSource` with a schema."""

__all__ = [
    "SOURCES",
    "AliCCP",
    "Avazu",
    "Criteo",
    "KuaiRand",
    "KuaiRandPure",
    "Retrosheet",
    "Source",
    "SourceStream",
    "TableSource",
]
