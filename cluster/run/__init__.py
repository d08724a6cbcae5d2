"""The training loop, and the parts that it talks to."""
