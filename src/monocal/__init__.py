"""monocal turns the scores of a ranking or CTR model into probabilities one can bid, budget and fuse with."""

__version__ = "0.1.0"
