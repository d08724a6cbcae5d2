"""Episodes as trajectories, and these without padding in micro-batches."""
