"""The service as seen from the network: calls, bodies, bounds and refusals."""
