"""The card by itself: what it is, and whether it multiplies and attends right.

Products are compared with those of float64 on the same rounded numbers. In float32 the card must not
round its inputs to TF32 (10 bits of mantissa), which the learner's comparisons would feel.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from benchmarks.gpu.bench import Bench, NotHere

LIMITS = {torch.float32: 64 * 2.0**-23, torch.bfloat16: 4 * 2.0**-8}  # TF32 would be 100 times over
HEADS, GROUPS, WIDTH = 8, 2, 64


def check(bench: Bench) -> None:
    if bench.on_card:
        with bench.part("a card that torch sees"):
            see(bench)
        if not torch.cuda.is_available():
            return
    size = 2048 if bench.on_card else 256
    for dtype, limit in LIMITS.items():
        with bench.part(f"products in {name(dtype)}"):
            bench.within(f"products in {name(dtype)}, error", product_error(bench.device, dtype, size), limit)
    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
        with bench.part(f"attention with a mask and {GROUPS} of {HEADS} heads in {name(dtype)}"):
            found = attention_error(bench.device, dtype, length=256 if bench.on_card else 64)
            bench.within(f"attention with a mask, {GROUPS} key heads for {HEADS}, {name(dtype)}, error", found, limit)
    if bench.on_card:
        with bench.part("speed of products"):
            bench.figure("products of 8,192 x 8,192 in bfloat16", f"{matmul_rate() / 1e12:.0f} TFLOP/s")


def needed(bench: Bench) -> None:
    """By every check that looks at the device."""
    if bench.on_card and not torch.cuda.is_available():
        raise NotHere("torch sees no card")


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def see(bench: Bench) -> None:
    built = f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}"
    if not torch.cuda.is_available():
        mend = "is there a card, and a driver for it?" if torch.version.cuda else "make setup DEVICE=gpu"
        bench.judge(False, "a card that torch sees", f"{built}: {mend}")
        return
    free, total = torch.cuda.mem_get_info()
    card = torch.cuda.get_device_properties(0)
    level = f"{card.major}.{card.minor}"
    bench.judge(True, "a card that torch sees", f"{card.name}, compute {level}, {total / 2**30:.1f} GiB; {built}")
    bench.figure("its memory that nobody holds", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB")
    bench.judge(torch.cuda.is_bf16_supported(), "it has bfloat16")


def product_error(device: str, dtype: torch.dtype, size: int) -> float:
    """Largest error over the largest entry."""
    torch.manual_seed(0)
    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
    exact = left.double() @ right.double()
    found = (left.to(device) @ right.to(device)).double().cpu()
    return float((found - exact).abs().max() / exact.abs().max())


def attention_error(device: str, dtype: torch.dtype, length: int) -> float:
    """Largest error of a row's output; entries are about 1."""
    torch.manual_seed(0)
    query = torch.randn(2, HEADS, length, WIDTH).to(dtype)
    key, value = (torch.randn(2, GROUPS, length, WIDTH).to(dtype) for _ in range(2))
    place = torch.arange(length)
    behind = place[:, None] - place
    mask = (behind >= 0) & (behind < 16)
    wide = [tensor.double().repeat_interleave(HEADS // GROUPS, dim=1) for tensor in (key, value)]
    scores = (query.double() @ wide[0].transpose(-1, -2)) * WIDTH**-0.5
    exact = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ wide[1]
    there = [tensor.to(device) for tensor in (query, key, value, mask)]
    found = F.scaled_dot_product_attention(*there, enable_gqa=True).double().cpu()
    return float((found - exact).abs().max())


def matmul_rate(size: int = 8192, rounds: int = 10) -> float:
    """FLOP/s of bfloat16 products: what this card can do, for others to be measured by."""
    if not torch.cuda.is_available():
        raise NotHere("there is no card")
    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for number in range(rounds + 3):
        if number == 3:
            torch.cuda.synchronize()
            began = time.perf_counter()
        left @ right
    torch.cuda.synchronize()
    return 2 * size**3 * rounds / (time.perf_counter() - began)
