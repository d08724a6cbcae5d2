"""Every game of a run, in its folder: kept beside the training, read while it grows."""
