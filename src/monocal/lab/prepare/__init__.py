"""Raw logs of any size as ids on disk, for rankers: read, count, encode, sort by time, publish."""
