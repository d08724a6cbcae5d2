"""Rollout workers from the driver's side: their processes, who may be given work, and what becomes of it."""
