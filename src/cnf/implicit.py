"""Implicit: the gradient of what an iteration converges to, from its last step alone.

The limit is a fixed point, s = S(s, p): the state s, what conditions see of the field, gives by one step the field that
has this state, and p is everything learnable. So

    ds/dp = (1 - S_s)^-1 S_p.

Where conditions leave nothing open, S_s vanishes: that is Newton's quadratic convergence. Where they do, the field of
smallest weights moves along with the state, S_s is as large as the contraction, and (1 - S_s^T) v = g is solved for the
gradient v in the backward pass, by GMRES with products by S_s^T through the graph of one step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cnf.errors import NumericalWarning
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.solution import Solution

MOST_PRODUCTS = 60
ENOUGH = 1e-13  # of the gradient: GMRES goes on until it misses less
TOO_MUCH = 1e-6  # and says so if it ends with more

Seen = list[tuple[Tensor, dict[MultiIndex, Tensor]]]
Products = Callable[[list[Tensor]], list[Tensor]]


class Numbers:
    """A state as plain numbers: leaves of a graph, made wherever conditions look at it."""

    def __init__(self, state: State):
        self.state, self.seen = state, Seen()

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        found = looked_up(self.seen, x)
        if found is None:
            found = {}
            self.seen.append((x, found))  # with its graph, if points are learnable
        missing = [index for index in indices if index not in found]
        if missing:
            with torch.no_grad():
                values = self.state.derivatives(x.detach(), missing)
            found.update({index: values[index].detach().clone().requires_grad_() for index in missing})
        return found

    @property
    def leaves(self) -> list[Tensor]:
        return [leaf for _, found in self.seen for leaf in found.values()]


class Replaced:
    """The same state with other tensors in place of its leaves."""

    def __init__(self, numbers: Numbers, tensors: Sequence[Tensor]):
        given = iter(tensors)
        self.seen: Seen = [(x, {index: next(given) for index in found}) for x, found in numbers.seen]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        found = looked_up(self.seen, x)
        assert found is not None, "a step looks at a state where the one before did"
        return found


def looked_up(seen: Seen, x: Tensor) -> dict[MultiIndex, Tensor] | None:
    return next((found for points, found in seen if points.shape == x.shape and torch.equal(points, x)), None)


class AtTheLimit(torch.autograd.Function):
    """The state after one step -> the state that no step changes: its own numbers, with the gradient of the limit."""

    @staticmethod
    def forward(ctx, numbers: Numbers, products: Products, *after: Tensor) -> tuple[Tensor, ...]:
        ctx.products = products
        return tuple(leaf.detach().clone() for leaf in numbers.leaves)

    @staticmethod
    @once_differentiable
    def backward(ctx, *wanted: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *_solved(ctx.products, list(wanted)))


def with_gradient(step: Callable[[State], Solution], state: State) -> Solution | None:
    """One step from the state, with the gradient of what steps converge to; None if nothing is learnable."""
    numbers = Numbers(state)
    first = step(numbers)
    leaves = numbers.leaves
    if not _depends_on_more(first.expansion.like, leaves):
        return None
    after = []
    for x, found in numbers.seen:
        seen = first.derivatives(x, list(found))
        after += [seen[index] for index in found]
    if not any(tensor.requires_grad for tensor in after):
        return first  # linear in everything that is looked at: the state has no say

    def products(vectors: list[Tensor]) -> list[Tensor]:
        """S_s^T v."""
        pairs = [(tensor, v) for tensor, v in zip(after, vectors, strict=True) if tensor.requires_grad]
        outputs, given = zip(*pairs, strict=True)
        made = torch.autograd.grad(outputs, leaves, given, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(v) if m is None else m for m, v in zip(made, vectors, strict=True)]

    return step(Replaced(numbers, AtTheLimit.apply(numbers, products, *after)))


def _depends_on_more(tensor: Tensor, leaves: Sequence[Tensor]) -> bool:
    """Whether the graph of a tensor leads to anything but these leaves."""
    own, waiting, known = {id(leaf) for leaf in leaves}, [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in own:
            return True
        waiting += [following for following, _ in node.next_functions]
    return False


def _solved(products: Products, wanted: list[Tensor]) -> list[Tensor]:
    """v with v - S_s^T v = wanted, by GMRES."""
    sizes, shapes = [w.numel() for w in wanted], [w.shape for w in wanted]

    def flat(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.reshape(-1) for t in tensors])

    def split(vector: Tensor) -> list[Tensor]:
        return [part.reshape(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]

    side = flat(wanted)
    size = torch.linalg.vector_norm(side)
    if not bool(size > 0) or not bool(torch.isfinite(size)):
        return wanted
    basis = [side / size]
    columns: list[Tensor] = []
    left = 1.0
    for k in range(MOST_PRODUCTS):
        new = basis[k] - flat(products(split(basis[k])))
        known = torch.stack(basis)  # (k + 1, n)
        along = known @ new
        new = new - along @ known
        again = known @ new  # twice is enough for orthogonal vectors
        new, along = new - again @ known, along + again
        length = torch.linalg.vector_norm(new)
        columns.append(torch.cat([along, length[None]]))
        matrix = side.new_zeros(k + 2, k + 1)
        for j, column in enumerate(columns):
            matrix[: j + 2, j] = column
        target = side.new_zeros(k + 2)
        target[0] = size
        shares = torch.linalg.lstsq(matrix, target[:, None]).solution[:, 0]
        left = float(torch.linalg.vector_norm(matrix @ shares - target) / size)
        if left <= ENOUGH or not bool(length > 0):
            break
        basis.append(new / length)
    if not left <= TOO_MUCH:
        warnings.warn(
            f"the gradient of a nonlinear solve is right to {left:.0e} only: its conditions leave much open, or their "
            "linearisation is singular",
            NumericalWarning,
            stacklevel=2,
        )
    return split(shares @ torch.stack(basis[: len(shares)]))
