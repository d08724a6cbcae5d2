"""Sixty-four bits that stand for a tensor's bytes, the same on every device.

    words    the bytes as 32-bit numbers x, 0 where the last one is not full
    a row    h = sum of x[i] * key[i]                     over WIDTH words
    digest   (number of bytes) * odd  +  sum of mix(h[r]) * key of the row r

all modulo 2^64. The keys are odd and random, so a change of one word, which is how a flipped
bit or a stale value shows, always changes its row; other differences, two values that changed
places among them, go unseen with a probability below 2^-31. It is no protection from somebody
who wants to deceive.

Only integers are added, so the order of adding does not matter: a GPU finds what a CPU finds.
Elements count in the order of their indices, however they lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch

WIDTH = 4096  # words in a row
ROWS = 64  # rows at a time: their numbers fit a CPU's cache, and bound the memory on a GPU
GPU_ROWS = 1024
SEED = 20_260_101
ODD = -7046029254386353131  # 2^64 divided by the golden ratio, made odd


def digest(tensor: torch.Tensor) -> torch.Tensor:
    """The digest, a whole number on the tensor's device: nothing waits for the device here."""
    keys = row_keys(tensor.device)
    numbers = words(tensor)
    full, step = numbers.numel() // WIDTH, GPU_ROWS if tensor.is_cuda else ROWS
    blocks = numbers[: full * WIDTH].view(full, WIDTH).split(step) if full else ()
    rows = [(block * keys).sum(-1) for block in blocks]
    rest = numbers[full * WIDTH :]
    if rest.numel():
        rows.append((rest * keys[: rest.numel()]).sum(-1, keepdim=True))
    total = torch.full((), tensor.numel() * tensor.element_size(), dtype=torch.int64, device=tensor.device) * ODD
    if not rows:
        return total
    found = torch.cat(rows)
    place = mix(torch.arange(1, found.numel() + 1, device=found.device) * ODD) | 1
    return total + (mix(found) * place).sum()


def words(tensor: torch.Tensor) -> torch.Tensor:
    """A copy only where the elements do not lie in order, or begin or end inside a word."""
    flat = tensor.detach().reshape(-1)
    if flat.stride(0) != 1:
        flat = flat.clone(memory_format=torch.contiguous_format)
    run = flat.view(torch.uint8)
    short = -run.numel() % 4
    if short or run.data_ptr() % 4 or run.storage_offset() % 4:
        run = torch.nn.functional.pad(run, (0, short)) if short else run.clone()
    return run.view(torch.int32)


def mix(numbers: torch.Tensor) -> torch.Tensor:
    """Spreads each number's bits over all 64; different numbers stay different."""
    numbers = (numbers ^ ((numbers >> 32) & 0xFFFFFFFF)) * ODD
    return numbers ^ ((numbers >> 29) & 0x7FFFFFFFF)


@cache
def row_keys(device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(SEED)
    high, low = torch.randint(0, 2**32, (2, WIDTH), generator=generator, dtype=torch.int64)
    return ((high << 32) | low | 1).to(device)


def numbers_of(digests: Iterable[torch.Tensor]) -> list[int]:
    """All at once: a device is waited for once."""
    found = list(digests)
    return torch.stack(found).tolist() if found else []
