"""The policy's loss, and what it tells of an update."""
