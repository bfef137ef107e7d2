"""Score spaces, validated samples, errors that phrase themselves, fingerprints, atomic files, seeds, progress."""
