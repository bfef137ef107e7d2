"""Logs on disk: the streaming encoder, encoded and scored logs, splits by time."""
