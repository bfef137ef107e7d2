"""Temporal shrinkage of effects: carries forward only what proved to persist on rows that came later."""
