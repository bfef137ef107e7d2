"""One file per data set in its raw format; what is exported here is what commands and studies know."""

from monocal.lab.prepare.source import Source, SourceStream, TableSource
from monocal.lab.sources.aliccp import AliCCP
from monocal.lab.sources.complete_journey import CompleteJourney
from monocal.lab.sources.display_ads import Avazu, Criteo
from monocal.lab.sources.kuairand import KuaiRand, KuaiRandPure
from monocal.lab.sources.retrosheet import Retrosheet

SOURCES: dict[str, type[Source]] = {
    source.name: source for source in (Avazu, AliCCP, CompleteJourney, Criteo, KuaiRand, KuaiRandPure, Retrosheet)
}
"""Data sets by name; any other table is read by `TableSource` with a schema."""

__all__ = [
    "SOURCES",
    "AliCCP",
    "Avazu",
    "CompleteJourney",
    "Criteo",
    "KuaiRand",
    "KuaiRandPure",
    "Retrosheet",
    "Source",
    "SourceStream",
    "TableSource",
]
