"""One update: read, credit, steps."""
