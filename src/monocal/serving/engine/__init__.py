"""Requests in, probabilities out: a model made ready for requests. No HTTP, no processes, no files but the model's."""
