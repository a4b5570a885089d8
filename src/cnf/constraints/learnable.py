"""What training moves inside conditions: numbers and networks in operators and right-hand sides."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from cnf.constraints.constraint import Constraint


def adopt_coefficients(constraints: Sequence[Constraint], numbers: nn.ParameterDict, networks: nn.ModuleDict) -> None:
    """Enter them into the tables of a field, each under a name of its own, so that optimisers find them."""
    for constraint in constraints:
        side = constraint.right_hand_side
        for name, value in (*constraint.operator.data, *side.data.items(), ("right_hand_side", side.source)):
            if isinstance(value, nn.Parameter):
                numbers[_free_name(numbers, name, value)] = value
            elif isinstance(value, nn.Module):
                networks[_free_name(networks, name, value)] = value


def _free_name(table: nn.ParameterDict | nn.ModuleDict, name: str, value: object) -> str:
    """`name`, or with a number behind it if another coefficient, or the table itself (`keys`), has it already."""
    free, count = name, 2
    while (free in table and table[free] is not value) or (free not in table and hasattr(table, free)):
        free, count = f"{name}_{count}", count + 1
    return free
