"""Memory that other processes of the node read, by a name that only they can use who may look into this one.

It has no name in the file system: it goes with this process however that ends, and no room of /dev/shm is asked for.
The name holds its number as a file too, for a descriptor's number comes back: who asks late gets nothing, not another's
bytes.
"""

from __future__ import annotations

import mmap
import os

import numpy as np


class Segment:
    def __init__(self, nbytes: int):
        self.descriptor = os.memfd_create("parley")
        os.ftruncate(self.descriptor, max(nbytes, 1))
        self.bytes = np.frombuffer(mmap.mmap(self.descriptor, max(nbytes, 1)), np.uint8, count=nbytes)
        self.name = f"{os.getpid()}/{self.descriptor}/{os.fstat(self.descriptor).st_ino}"

    def close(self) -> None:
        os.close(self.descriptor)
        del self.bytes  # unmapped with its last view
