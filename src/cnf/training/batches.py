"""Batches: which part of fixed data a step sees; all of it in a random order, then again in another.

The order follows from seeds and the number of the step alone, so a run that is resumed sees what it would have seen.
"""

from __future__ import annotations

import torch
from torch import Tensor

SPREAD = 1_000_003  # keeps the draws of neighbouring seeds apart


class Draw(torch.Generator):
    """The random numbers of one step of a run: a generator that knows the step and the seed of the run."""

    step: int
    seed_of_run: int

    @staticmethod
    def of(seed: int, step: int) -> Draw:
        draw = Draw()
        draw.manual_seed((seed * SPREAD + step) % 2**63)
        draw.step, draw.seed_of_run = step, seed
        return draw


class Batches:
    """Indices (size,) into `count` entries; those left over at the end of a round are others in the next."""

    def __init__(self, count: int, size: int, seed: int = 0):
        self.count, self.size, self.seed = count, min(size, count), seed
        self._calls = 0
        self._orders = Orders(count, seed)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Those of the generator's step, if it has one; without a generator, the next at every call."""
        if isinstance(generator, Draw):
            return self.at(generator.step, generator.seed_of_run)
        if generator is not None:
            return torch.randperm(self.count, generator=generator)[: self.size]
        self._calls += 1
        return self.at(self._calls - 1)

    def at(self, step: int, seed: int = 0) -> Tensor:
        """Those of a step; `seed` is that of the run."""
        turn, k = divmod(step, self.count // self.size)
        wanted = (self.seed + seed * SPREAD) % 2**63
        if self._orders.seed != wanted or self._orders.turn > turn:
            self._orders = Orders(self.count, wanted)
        return self._orders.advanced(turn)[k * self.size : (k + 1) * self.size]


class Orders:
    """Permutations drawn one after the other from a seed; only the latest is kept."""

    def __init__(self, count: int, seed: int):
        self.count, self.seed, self.turn = count, seed, -1
        self._generator = torch.Generator().manual_seed(seed)
        self._order = torch.empty(0, dtype=torch.long)

    def advanced(self, turn: int) -> Tensor:
        """The permutation of a round, this one or a later one."""
        while self.turn < turn:
            self._order, self.turn = torch.randperm(self.count, generator=self._generator), self.turn + 1
        return self._order
