"""The laboratory: simulator, public data sets, rankers, studies; the product is complete without it."""
