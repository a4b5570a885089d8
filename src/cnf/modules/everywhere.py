"""Sums over functions that are all looked at from every point: what most bases are evaluated by."""

from __future__ import annotations

from torch import Tensor, nn

from cnf.bases.basis import values_request
from cnf.bases.local import SourceEvaluator
from cnf.bases.looked_into import is_looked_into, is_recorded
from cnf.modules.frozen import Frozen
from cnf.modules.recorded import recordable
from cnf.operators.expansion import Request
from cnf.systems.expansions import BasisExpansion, GlobalExpansion
from cnf.systems.formulation import KnownAccount
from cnf.systems.source_sums import SourceSums


def requests_of(points: Tensor, channels: int) -> list[Request]:
    """Ask for the values of every channel."""
    return [values_request(points.shape[1], points, c) for c in range(channels)]


class SumsOfFunctions(nn.Module):
    """sum_j weights_j Psi_j(x), (P, D) -> (P, C), by the code that the field itself is evaluated by."""

    def __init__(self, expansion: BasisExpansion, dimension: int):
        super().__init__()
        names = ("weights", "size", "channels", "shared")
        given = {name: getattr(expansion, name) for name in names}
        evaluators = (expansion.evaluator, recordable(expansion.evaluator, dimension))
        plain, recorded = (GlobalExpansion(e, **given, account=KnownAccount("")) for e in evaluators)
        self.expansion = Frozen((plain, recorded))  # which share their tensors

    def forward(self, points: Tensor) -> Tensor:
        plain, recorded = self.expansion.thing()
        if is_recorded():
            return recorded.values_at_once(points)
        return plain.values_at_once(points) if is_looked_into() else plain.values(points)


class SumsOfSources(nn.Module):
    """The same for derivatives of one kernel of the coordinates, whose strengths are worked out once."""

    def __init__(self, evaluator: SourceEvaluator, weights: Tensor, channels: int):
        super().__init__()
        self.channels = channels
        self.sums = Frozen(SourceSums.of(evaluator, weights, set(range(channels))))

    def forward(self, points: Tensor) -> Tensor:
        return self.sums.thing().sums(points, requests_of(points, self.channels))
