"""Whether torch looks into operations, so that no decision may hang on the numbers that pass through them."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def is_recorded() -> bool:
    """True while operations are compiled, exported or traced: what is decided by a number of points would be kept."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_looked_into() -> bool:
    """True while operations are recorded, and inside the transforms of `torch.func`.

    A decision made on numbers there fails, or is kept for all other numbers; gradients that are written out are not
    seen.
    """
    return is_recorded() or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
