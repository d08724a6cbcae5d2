"""How weights reach an engine: the receiving side, and proofs of what arrived and is held."""
