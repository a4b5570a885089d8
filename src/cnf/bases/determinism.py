"""Layers that spoil conditions: those that answer differently each time, or mix the points of a batch.

A condition is solved for what a network says at that moment; a network that says something else at the next call, or
when other points are asked along, cannot be held to it.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from cnf.errors import BasisError

UNSTEADY = (_BatchNorm, _DropoutNd)


def refuse_unsteady(module: nn.Module, what: str) -> None:
    """Raise if a layer in training mode is random (dropout) or mixes points (batch normalisation)."""
    for name, layer in module.named_modules():
        if not layer.training:
            continue
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            reason = "answers at random"
        elif isinstance(layer, _BatchNorm):
            reason = "makes each point depend on the others of its batch"
        else:
            continue
        raise BasisError(
            f"{what} contains {type(layer).__name__} ({name or 'itself'}) in training mode, which {reason}, "
            "so no condition on it can hold; remove it, or put that layer in eval mode"
        )
