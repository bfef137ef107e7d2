"""Drawings as text: axes and marks in SVG whose colours come from the page's style sheet."""
