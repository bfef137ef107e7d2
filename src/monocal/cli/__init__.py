"""The command line: one verb per file, each thin over one library function.

Nothing heavy is imported before a verb runs, so `monocal --help` answers at once.
"""
