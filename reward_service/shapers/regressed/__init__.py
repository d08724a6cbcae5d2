"""Intention credit by regression: what a turn is worth, learned from what situations and utterances mean."""
