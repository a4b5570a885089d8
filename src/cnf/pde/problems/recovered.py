"""Recovered: the unknown numbers of a problem as they were found, what the sensors say about them, and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Misfit:
    """What an equation that is fitted misses at its points, absolute; `size`: of its measurements."""

    name: str
    rows: int
    rms: float
    largest: float
    size: float

    def __str__(self) -> str:
        share = f"{self.rms / self.size:.1e} of their size"
        return (
            f"{self.name}: {self.rows} measurements missed by {self.rms:.1e} (rms, {share}), at most {self.largest:.1e}"
        )


@dataclass(frozen=True)
class Recovered:
    """By name: `values`; `deviations`, what independent errors as large as the misfit make of them (NaN if there are as
    many unknowns as measurements: then nothing is known about those); `numerical`, what the error of the field may."""

    values: dict[str, float]
    deviations: dict[str, float]
    numerical: dict[str, float]
    misfits: tuple[Misfit, ...]
    rows: int  # measurements in all
    steps: int
    errors: dict[str, float] | None = None  # relative, of those whose value is known
    of_values: bool = False  # `numerical` knows the error of values only, though derivatives are measured as well

    def described(self, name: str) -> str:
        """An unknown with what is known about it."""
        deviation, numerical = self.deviations[name], self.numerical[name]
        parts = ["no measurement to spare" if math.isnan(deviation) else f"± {deviation:.1e} by the misfit"]
        known = "by the estimate, which is one of values, not of fluxes" if self.of_values else "by the estimate"
        parts.append(f"{numerical:.1e} {known}" if math.isfinite(numerical) else "no estimate of the field")
        if self.errors and name in self.errors:
            parts.append(f"relative error {self.errors[name]:.1e}")
        return f"{self.values[name]:.12g} ({', '.join(parts)})"

    def lines(self) -> list[str]:
        """All of it, one thing per line; what is exact and what is fitted are not to be confused."""
        return [*(f"{name} = {self.described(name)}" for name in self.values), *self.fitted()]

    def fitted(self) -> list[str]:
        """What is fitted, and how it went."""
        found = [f"fitted, not exact: {misfit}" for misfit in self.misfits]
        count = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return [*found, f"found in {count} of Gauss and Newton; the other equations hold exactly for these values"]

    def to_dict(self) -> dict[str, object]:
        errors = self.errors or {}
        unknowns = {
            name: {
                "value": value,
                "deviation": self.deviations[name],
                "numerical": self.numerical[name],
                "error": errors.get(name),
            }
            for name, value in self.values.items()
        }
        misfits = [
            {"name": m.name, "measurements": m.rows, "rms": m.rms, "largest": m.largest, "size": m.size}
            for m in self.misfits
        ]
        return {
            "values": unknowns,
            "fitted": misfits,
            "measurements": self.rows,
            "steps": self.steps,
            "of_values": self.of_values,
        }
