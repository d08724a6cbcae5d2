"""Finished episodes in, per-turn rewards out. A shaper is one file in `shapers`, with its settings."""
