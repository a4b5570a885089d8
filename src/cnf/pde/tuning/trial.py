"""Trial and Tuning: what was tried, how good it was, and what won."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

from cnf.field import ConstrainedField

INEXACT = 1000.0  # puts every field that misses its conditions behind all that meet them
RESOLVED = 1e-3  # relative held-out residual above which a field is not to be trusted between its points


@dataclass(frozen=True)
class Settings:
    """What can be tuned: `bandwidth` one per coordinate, `size` functions per condition, `spread` of log-widths.

    `spread` and `steps` belong to `SkewedRBF`: how far the widths of its functions are drawn apart, and how many
    training steps every covariance had afterwards. `poles`: whether functions with poles in corners and holes join.
    `guided`: whether the equations between the points decide on what the conditions leave free.

    >>> cnf.tuning.Settings(bandwidth=(0.2, 0.2), size=1.5).size
    1.5
    """

    bandwidth: tuple[float, ...]
    size: float = 2.0
    spread: float = 0.0
    steps: int = 0
    poles: bool = False
    guided: bool = False

    def widened(self, factor: float, axis: int | None = None) -> Settings:
        """All bandwidths, or that of one coordinate, multiplied by a factor."""
        return replace(
            self, bandwidth=tuple(b * factor if axis in (None, k) else b for k, b in enumerate(self.bandwidth))
        )


@dataclass(frozen=True)
class Trial:
    """One choice of settings and how the field did with it.

    >>> trial = cnf.tuning.Trial({"bandwidth": 0.2}, loss=-3.5, residual=1e-14)
    >>> trial.exact, trial.score
    (True, -3.5)
    """

    settings: Mapping[str, object]
    loss: float  # log10: one less is ten times better; infinite if the field could not be solved
    residual: float = math.nan  # relative held-out residual, root mean square over all equations
    exact: bool | None = True  # whether all conditions held within the tolerance; None: not measured
    missed: float = 0.0  # worst relative residual at the conditions; NaN: not measured
    conditions: int = 0  # of the system solved; a rehearsal has fewer than the problem
    seconds: float = 0.0

    @property
    def score(self) -> float:
        """What a search minimises: the loss of exact fields that hold between the points as well.

        Behind them come near misses, then exact fields that are wild between the points, then the rest; fields that
        are not exact are ordered by how far conditions are missed.
        """
        if not math.isfinite(self.missed):
            return math.inf
        wild = self.residual > RESOLVED  # NaN: not measured
        if self.exact:
            return self.loss + (2 * INEXACT if wild else 0)
        missed = math.log10(max(self.missed, 1e-300))
        return missed + (3 * INEXACT if wild or self.missed > RESOLVED else INEXACT)

    def describe(self) -> str:
        """The settings and how the field did with them, in a few words."""
        shown = "cannot be solved" if math.isinf(self.loss) else f"held-out residual {self.residual:.1e}"
        return f"{self}: {shown}, not exact" if self.exact is False else f"{self}: {shown}"

    def __str__(self) -> str:
        return ", ".join(f"{name} {_shown(value)}" for name, value in self.settings.items())


Report = Callable[[Trial], object]


@dataclass(frozen=True)
class Tuning:
    """All trials in order, the best of them, and whether the user stopped the search.

    >>> trial = cnf.tuning.Trial({"bandwidth": 0.2}, loss=-3.5)
    >>> cnf.tuning.Tuning("held-out", (trial,), trial).best is trial
    True
    """

    objective: str
    trials: tuple[Trial, ...]
    best: Trial
    interrupted: bool = False
    solved: ConstrainedField | None = field(default=None, repr=False, compare=False)  # the best, solved already


def as_mapping(settings: Settings) -> dict[str, object]:
    """The settings by name; those that play no part are left out."""
    return {name: value for name, value in asdict(settings).items() if value or name in ("bandwidth", "size")}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return " x ".join(f"{v:.3g}" for v in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)
