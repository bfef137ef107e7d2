"""Torch modules that the neural methods share: encoders of field ids, networks, the interface of every map."""
