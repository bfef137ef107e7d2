"""The machinery behind DeepFM: a sparse embedding store, a dense network, one trainer and one scorer.

It is written by hand instead of with autograd because almost all of a table's rows are untouched by a batch, and
because single-threaded chunks make the result independent of the number of threads.
"""
