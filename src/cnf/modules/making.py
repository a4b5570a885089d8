"""Making: from the expansion and the base of a solution to its module, checked against the solution."""

from __future__ import annotations

from typing import Any

from torch import nn

from cnf.bases.local import SourceEvaluator
from cnf.bases.precision import Recast
from cnf.constraints import Space
from cnf.errors import CnfError
from cnf.modules.balls import SumsOfBalls
from cnf.modules.cells import SumsOfCells
from cnf.modules.everywhere import SumsOfFunctions, SumsOfSources
from cnf.modules.field_module import FieldModule
from cnf.modules.frozen import copy_of
from cnf.modules.nearby import SumsOfNearFunctions, SumsOfNearSources, has_pairs
from cnf.systems.base_function import BaseFunction
from cnf.systems.blended import BlendedExpansion
from cnf.systems.expansions import BasisExpansion, LocalExpansion
from cnf.systems.formulation import Expansion
from cnf.systems.nearest import NearestExpansion
from cnf.systems.tied import CellExpansion


def module_of(space: Space, expansion: Expansion, base: BaseFunction | None) -> FieldModule:
    """The field as a module; an error says what cannot be part of one."""
    sums, network = sums_of(expansion, len(space.coordinates)), None if base is None else network_of(base)
    return FieldModule(sums, network, space.coordinates, len(space.channels), expansion.like)


def sums_of(expansion: Expansion, dimension: int) -> nn.Module:
    """The weighted functions as a module, (P, D) -> (P, C)."""
    if isinstance(expansion, LocalExpansion):
        if isinstance(expansion.evaluator, SourceEvaluator):
            return SumsOfNearSources(expansion)
        if has_pairs(expansion.evaluator):
            return SumsOfNearFunctions(expansion)
    if isinstance(expansion, BasisExpansion):
        if isinstance(expansion.evaluator, SourceEvaluator):
            return SumsOfSources(expansion.evaluator, expansion.weights, expansion.channels)
        return SumsOfFunctions(expansion, dimension)
    if isinstance(expansion, BlendedExpansion):
        return SumsOfBalls(expansion)
    if isinstance(expansion, CellExpansion):
        return SumsOfCells(expansion)
    if isinstance(expansion, NearestExpansion):
        raise CnfError(
            "Patches in mode 'local' solve a system for every query, which no module of tensors can hold; solve with "
            "cnf.solvers.Patches(mode='blend') or Auto() instead"
        )
    raise CnfError(f"a field of kind {type(expansion).__name__} cannot leave as a torch module")


def network_of(base: BaseFunction) -> nn.Module:
    """The base as a module of its own; a field as its module."""
    given: Any = base.network
    own = getattr(getattr(given, "solution", None), "as_module", None)
    if own is not None:
        return own()
    if isinstance(given, Recast):  # converted after copying, for a script copies itself as it is
        return copy_of(given.network).to(given.precision).requires_grad_(False)
    return copy_of(given).requires_grad_(False)
