"""Fingerprint: a cheap, position-sensitive checksum that tells whether any tensor changed, however it was changed.

Version counters miss writes through `.data`; comparing contents does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(tensors: Sequence[Tensor]) -> tuple:
    """One entry per tensor: shape, dtype, device and a checksum of the bits."""
    return tuple((tuple(t.shape), t.dtype, str(t.device), _checksum(t.detach())) for t in tensors)


def plain_attributes(module: nn.Module) -> tuple:
    """Numbers and strings that a module keeps as ordinary attributes (a frequency, say)."""
    kept = ((name, value) for name, value in vars(module).items() if isinstance(value, bool | int | float | str))
    return tuple(pair for pair in kept if pair[0] not in ("training", "_is_full_backward_hook"))


def _checksum(tensor: Tensor) -> int:
    if not tensor.numel():
        return 0
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    words = tensor.contiguous().reshape(-1).view(WORDS[tensor.element_size()]).to(torch.int64)
    # Odd multipliers that depend on the position: wrap-around sums of these notice swaps as well as changes.
    ramp = torch.arange(words.numel(), device=words.device, dtype=torch.int64) * 0x5851F42D4C957F2D + 1
    mixed = (words ^ (words >> 29)) * (ramp | 1)
    return int((mixed ^ (mixed >> 32)).sum())
