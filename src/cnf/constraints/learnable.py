"""Learnable: the numbers and networks inside conditions that training moves, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from cnf.constraints.constraint import Constraint


def adopt_learnable(constraints: Sequence[Constraint], numbers: nn.ParameterDict, networks: nn.ModuleDict) -> None:
    """Put the learnable coefficients of operators and right-hand sides into the tables, where optimisers find them."""
    for name, value in _named_data(constraints):
        if isinstance(value, nn.Parameter):
            numbers[_free_name(numbers, name, value)] = value
        elif isinstance(value, nn.Module):
            networks[_free_name(networks, name, value)] = value


def _named_data(constraints: Sequence[Constraint]) -> Iterator[tuple[str, object]]:
    for constraint in constraints:
        side = constraint.right_hand_side
        yield from (*constraint.operator.data, *side.data.items(), ("right_hand_side", side.source))


def _free_name(table: nn.ParameterDict | nn.ModuleDict, name: str, value: object) -> str:
    """`name`, or with a number behind it if another coefficient, or the table itself (`keys`), has it already."""
    free, count = name, 2
    while (free in table and table[free] is not value) or (free not in table and hasattr(table, free)):
        free, count = f"{name}_{count}", count + 1
    return free
