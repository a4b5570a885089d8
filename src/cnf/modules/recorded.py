"""What is evaluated while operations are recorded: the same functions, without what recording cannot follow."""

from __future__ import annotations

from dataclasses import replace

from cnf.bases.at_once import AtOnce
from cnf.bases.basis import Evaluator
from cnf.bases.concat import SideBySide
from cnf.bases.hybrid import Windowed
from cnf.bases.hypernet import GeneratedFunctions, GeneratedKernel
from cnf.bases.hypernetwork import MEMORY
from cnf.bases.networks import Independent


def recordable(evaluator: Evaluator, dimension: int) -> Evaluator:
    """The evaluator, or one of the same functions whose generated networks are graphs of operations."""
    if isinstance(evaluator, GeneratedFunctions):
        return replace(evaluator, network=AtOnce(evaluator.network, evaluator.parameters, dimension))
    if isinstance(evaluator, GeneratedKernel):
        return replace(evaluator, encoder=AtOnce(evaluator.encoder, evaluator.parameters, dimension))
    if isinstance(evaluator, Independent) and evaluator.stacked is not None:
        made = AtOnce(evaluator.networks[0], evaluator.stacked, dimension)
        return GeneratedFunctions(made, evaluator.stacked, MEMORY)
    if isinstance(evaluator, Windowed):
        inner = recordable(evaluator.inner, dimension)
        return evaluator if inner is evaluator.inner else replace(evaluator, inner=inner)
    if isinstance(evaluator, SideBySide):
        parts = [recordable(part, dimension) for part in evaluator.parts]
        same = all(a is b for a, b in zip(parts, evaluator.parts, strict=True))
        return evaluator if same else replace(evaluator, parts=parts)
    return evaluator
