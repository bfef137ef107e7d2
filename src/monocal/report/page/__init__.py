"""The page: numbers as words, tables and drawings in one HTML file."""
