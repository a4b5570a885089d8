"""What the factor of a plan on patches takes, counted array by array."""

import numpy as np

from cnf.systems.tied import TiedPlan


def arrays_of_factor(plan: TiedPlan) -> list[np.ndarray]:
    """Of cells and of merges, without rows and guides."""
    factors = [*plan.factor.local, *(front.factor for front in plan.factor.fronts)]
    arrays = [a for f in factors for a in (f.reflections, f.turn, f.turned) if a is not None]
    return arrays + [front.held for front in plan.factor.fronts]
