"""Detaching: copies of everything a solution keeps that no graph leads away from, for pickle and deep copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from cnf.bases.part import is_ours
from cnf.systems.holding import Holder


class Detacher(Holder):
    """Objects of this package are copied attribute by attribute, tensors without their graph."""

    def _maker(self, part: object) -> Callable[[Any], Any]:
        if not isinstance(part, Tensor | nn.Module) and is_ours(type(part)):
            return self._own
        return super()._maker(part)

    def _tensor(self, tensor: Tensor) -> object:
        return self._keep(tensor, tensor.detach().clone())

    def _own(self, part: object) -> object:
        if isinstance(part, tuple | float) or not hasattr(part, "__dict__"):
            return part
        made = self._keep(part, copy.copy(part))
        for name, value in vars(part).items():
            made.__dict__[name] = self.held(value)
        return made
