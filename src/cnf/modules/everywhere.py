"""Sums over functions that are all looked at from every point: what most bases are evaluated by."""

from __future__ import annotations


from torch import Tensor, nn

from cnf.bases.basis import values_request
from cnf.bases.local import SourceEvaluator
from cnf.bases.looked_into import is_looked_into
from cnf.modules.frozen import Frozen
from cnf.systems.expansions import BasisExpansion, GlobalExpansion
from cnf.systems.formulation import KnownAccount
from cnf.systems.source_sums import SourceSums


class SumsOfFunctions(nn.Module):
    """sum_j weights_j Psi_j(x), (P, D) -> (P, C), by the code that the field itself is evaluated by."""

    def __init__(self, expansion: BasisExpansion):
        super().__init__()
        names = ("evaluator", "weights", "size", "channels", "shared")
        given = {name: getattr(expansion, name) for name in names}
        self.expansion = Frozen(GlobalExpansion(**given, account=KnownAccount("")))

    def forward(self, points: Tensor) -> Tensor:
        expansion = self.expansion.thing()
        return expansion.values_at_once(points) if is_looked_into() else expansion.values(points)


class SumsOfSources(nn.Module):
    """The same for derivatives of one kernel of the coordinates, whose strengths are worked out once."""

    def __init__(self, evaluator: SourceEvaluator, weights: Tensor, channels: int):
        super().__init__()
        self.channels = channels
        self.sums = Frozen(SourceSums.of(evaluator, weights, set(range(channels))))

    def forward(self, points: Tensor) -> Tensor:
        requests = [values_request(points.shape[1], points, c) for c in range(self.channels)]
        return self.sums.thing().sums(points, requests)
