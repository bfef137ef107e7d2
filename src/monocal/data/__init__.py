"""The table boundary, schemas, vocabularies, encoded logs, time splits, sources, and the simulator."""
