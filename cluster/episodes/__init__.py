"""Every game of a run, in its folder: kept beside the training, read while it grows."""

import os

# Before Arrow is loaded: its own allocator grows for as long as a run, whatever is freed; the system's does not.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
