"""Score spaces, validated samples, errors that phrase themselves, fingerprints, atomic files, seeds, progress."""

__version__ = "0.3.0"
