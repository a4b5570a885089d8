"""Local evaluation: functions that sit at points, evaluated at chosen pairs of a point and a centre only.

Bases of kernels know where each of their functions sits. With that, a matrix whose entries mostly vanish is assembled
entry by entry, a query touches only the functions near it, and small dense systems are cut out of large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.basis import Evaluator
from cnf.bases.kernels import KernelProfile
from cnf.errors import BasisError
from cnf.operators.expansion import Request
from cnf.operators.jets import MultiIndex

Strengths = dict[MultiIndex, Tensor]

EDGE = 1 + 1e-12  # pairs at the edge of the support, where the functions vanish, may be in or out


@dataclass(frozen=True)
class Centres:
    """R functions at each of Q points: function `columns[r, q]` of the basis sits at `points[q]`.

    `channels[r]` is the channel a function acts on, None if every channel has a weight of its own for it.
    """

    points: Tensor  # (Q, D)
    columns: Tensor  # (R, Q)
    channels: tuple[int | None, ...]

    @staticmethod
    def of_anchors(anchors: Tensor) -> Centres:
        """One function per anchor, in order."""
        return Centres(anchors, torch.arange(anchors.shape[0], device=anchors.device)[None], (None,))


@runtime_checkable
class LocalEvaluator(Evaluator, Protocol):
    """An evaluator that can look at chosen pairs."""

    @property
    def centres(self) -> Sequence[Centres]:
        """Every function of the basis, in groups that share their points."""
        ...

    @property
    def support(self) -> Tensor | None:
        """Distance (one, or one per coordinate) beyond which every function vanishes; None: there is none."""
        ...

    def paired(self, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request], group: int = 0) -> Tensor:
        """Points x (P, D) and pairs (E,) of a point p and a centre q of a group: (E, K, R).

        p and q may also have any shapes that broadcast; E counts the pairs of the common shape, flattened.
        """
        ...


@runtime_checkable
class SourceEvaluator(LocalEvaluator, Protocol):
    """A local evaluator of functions that are derivatives of one kernel of the coordinates, d^b k(x - y_q)."""

    kernel: KernelProfile

    def paired(
        self,
        x: Tensor,
        p: Tensor,
        q: Tensor,
        requests: Sequence[Request],
        group: int = 0,
        stretch: Tensor | None = None,
    ) -> Tensor:
        """As every local evaluator; with `stretch` (E,) of the kernel k(stretch (x - y)) at each pair."""
        ...

    def strengths(self, weights: Tensor, q: Tensor, functions: Sequence[int], group: int = 0) -> Strengths:
        """Weights (E, R) of some functions of the centres q (E,) -> the factor v_b (E,) of every derivative b."""
        ...


def reach_of(evaluator: LocalEvaluator) -> Tensor | None:
    """The support, refused if training has driven it away from numbers."""
    support = evaluator.support
    if support is not None and not bool((torch.isfinite(support.detach()) & (support.detach() > 0)).all()):
        raise BasisError(
            f"the radius of the kernel is {support.detach().tolist()}; has training diverged? Use smaller steps"
        )
    return support


def neighbours(x: Tensor, centres: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (p, q), each (E,), of points x (P, D) and centres (Q, D) closer than the support; p ascends."""
    scale = support.detach().to(torch.float64).cpu().numpy()
    left, right = (t.detach().to(torch.float64).cpu().numpy() / scale for t in (x, centres))
    found = cKDTree(left).sparse_distance_matrix(cKDTree(right), EDGE, output_type="coo_matrix")
    order = np.argsort(found.row, kind="stable")
    p, q = (torch.from_numpy(a[order].astype(np.int64)) for a in (found.row, found.col))
    return p.to(x.device), q.to(x.device)


def flat_pairs(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (E,) from indices of any shapes that broadcast."""
    if p.dim() == 1 and p.shape == q.shape:
        return p, q
    p, q = torch.broadcast_tensors(p, q)
    return p.reshape(-1), q.reshape(-1)


def at_pairs(requests: Sequence[Request], own: Tensor, other: Tensor) -> list[Request]:
    """Requests whose weights (P,) follow the points `own` of pairs with `other`: numbers or (E,)."""

    def follow(weight: Tensor) -> Tensor:
        return weight if weight.dim() == 0 else flat_pairs(weight[own], other)[0]

    return [Request(r.channel, {a: follow(w) for a, w in r.weights.items()}) for r in requests]


def gathered(evaluator: Evaluator, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request]) -> Tensor:
    """(E, K, 1) for an evaluator without a pairwise form: whole rows of the points in question, then the pairs."""
    p, q = flat_pairs(p, q)
    if not p.numel():
        return x.new_zeros(0, len(requests), 1)
    first, last = int(p.min()), int(p.max()) + 1
    rows = evaluator.rows(x[first:last], [r.at(slice(first, last)) for r in requests])  # (P', K, N)
    return rows[p - first, :, q][:, :, None]
