"""From finished cases of materials to what their reports take: results and mean learning curves.

In: the cases of a study or a comparison. Out: `Result`s for tables, and curves averaged over materials.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cnf.materials.report.curves import Logged
from cnf.materials.report.results import CHAMPION, Result

if TYPE_CHECKING:
    from cnf.materials.comparison.cases import Case


def as_results(cases: Sequence[Case]) -> list[Result]:
    names = [field.name for field in dataclasses.fields(Result)]
    return [Result(**{name: getattr(case, name) for name in names}) for case in cases]


def choose_champion(methods: Sequence[str]) -> str:
    """Kernel SIREN if it took part, else the last method: tables have the constrained ones at their end."""
    return CHAMPION if CHAMPION in methods else methods[-1]


def mean_curves(cases: Sequence[Case]) -> dict[str, Logged]:
    """Per method the loss and the seconds at every logged step, averaged over the materials logged at the same steps.

    A material with fewer samples than asked for is trained in fewer steps; the most frequent length counts.
    """
    found: dict[str, Logged] = {}
    for method in dict.fromkeys(case.method for case in cases):
        own = [case for case in cases if case.method == method and case.steps]
        if not own:
            continue
        steps = Counter(tuple(case.steps) for case in own).most_common(1)[0][0]
        same = [case for case in own if tuple(case.steps) == steps]
        losses, times = (np.mean([getattr(case, name) for case in same], axis=0) for name in ("losses", "times"))
        found[method] = list(steps), losses.tolist(), times.tolist()
    return found
