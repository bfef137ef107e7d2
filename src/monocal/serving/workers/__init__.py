"""Processes: a worker, and the supervisor that starts, watches and replaces workers."""
