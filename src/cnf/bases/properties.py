"""Properties: what each basis can do, as facts that the library itself reads.

Every basis declares its `Properties`. `recommend` chooses by them, and the table in the documentation is printed from
them (`properties_table`), so prose cannot drift away from code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Properties:
    """One column of the summary table; words where it is a matter of degree, booleans where it is not.

    >>> cnf.bases.Polynomial.properties.repeated_anchors, cnf.bases.Kernel.properties.repeated_anchors
    (True, False)
    """

    capacity: str  # what the functions can learn away from the conditions: none, poor, fair, good
    independence: str  # how far from linear dependence they stay: poor, fair, good
    sparse: bool  # functions are local, so many entries of the system are zero or nearly so
    controllable_sparsity: bool  # the support is a setting
    parameters_independent: bool  # the number of parameters does not grow with the number of conditions
    repeated_anchors: bool  # several conditions at one point give distinct functions
    smoothness: str  # derivatives the functions have


HEADINGS = {
    "capacity": "learning capacity",
    "independence": "linear independence",
    "sparse": "sparse matrix",
    "controllable_sparsity": "controllable sparsity",
    "parameters_independent": "parameters independent of conditions",
    "repeated_anchors": "several conditions at one point",
    "smoothness": "derivatives",
}


def properties_table(bases: Mapping[str, Properties]) -> str:
    """A Markdown table with one row per basis.

    >>> print(cnf.bases.properties_table({"Kernel": cnf.bases.Kernel.properties}).splitlines()[-1])
    | `Kernel` | good | good | yes | no | yes | no | as the kernel and the encoder |
    """
    names = [field.name for field in fields(Properties)]
    lines = ["| basis | " + " | ".join(HEADINGS[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for basis, properties in bases.items():
        cells = [_cell(getattr(properties, name)) for name in names]
        lines.append(f"| `{basis}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
