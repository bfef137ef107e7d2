"""Compiled loops over arrays: the exact monotone integral and the inference paths built on it."""
