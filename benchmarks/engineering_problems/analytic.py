"""Harmonic and biharmonic functions by least squares on the boundary: the references of planar problems.

A harmonic function is the real part of an analytic f; displacements of plane elasticity and velocities of Stokes flow
follow from two of them (Goursat). f is a polynomial, plus powers about every corner with the exponents that the two
edges there allow, plus negative powers about round holes. The weights fit the boundary conditions at half of many
points; what the other half misses says how good the reference is. What comes in: a basis and conditions; what goes
out: a function of points, and what it misses on the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
Combination = Callable[[Array], Array]  # points (P,) complex -> (P,)


@dataclass(frozen=True)
class Corner:
    """Powers of (z - place) / (size * inward), cut along the outside, and powers times the logarithm."""

    place: complex
    inward: complex
    powers: Sequence[complex] = ()
    logarithmic: Sequence[complex] = ()

    def matrix(self, z: Array, size: float) -> tuple[Array, Array]:
        """Values and derivatives, each (P, N)."""
        step = size * self.inward / abs(self.inward)
        w = ((z - self.place) / step)[:, None]
        plain, logarithmic = np.array(self.powers, complex), np.array(self.logarithmic, complex)
        log = np.log(w)
        raised = np.exp(logarithmic * log)
        values = np.concatenate([np.exp(plain * log), raised * log], axis=1)
        slopes = np.concatenate([plain * np.exp((plain - 1) * log), raised / w * (logarithmic * log + 1)], axis=1)
        return values, slopes / step

    @property
    def count(self) -> int:
        return len(self.powers) + len(self.logarithmic)


@dataclass(frozen=True)
class Analytic:
    """Functions z -> complex: Chebyshev polynomials about a centre, corners, negative powers about holes."""

    centre: complex
    size: float
    degree: int
    corners: Sequence[Corner] = ()
    holes: Sequence[tuple[complex, float]] = ()
    powers: int = 0
    origins: Array = field(init=False)  # about what each function turns, (N,)

    def __post_init__(self) -> None:
        about = [np.full(self.degree + 1, self.centre), *(np.full(c.count, c.place) for c in self.corners)]
        origins = np.concatenate([*about, *(np.full(self.powers, c) for c, _ in self.holes)])
        object.__setattr__(self, "origins", origins.astype(complex))

    def matrix(self, z: Array) -> tuple[Array, Array]:
        """Values and derivatives, each (P, N)."""
        w, k, n = (z - self.centre)[:, None] / self.size, np.arange(self.degree + 1), np.arange(1, self.powers + 1)
        parts = [(w**k, k * w ** np.maximum(k - 1, 0) / self.size), *(c.matrix(z, self.size) for c in self.corners)]
        for centre, radius in self.holes:
            q = radius / (z - centre)[:, None]
            parts.append((q**n, -n * q ** (n + 1) / radius))
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values, axis=1), np.concatenate(slopes, axis=1)


def edge(start: complex, end: complex, count: int = 800) -> Array:
    """Points of an edge that crowd towards both ends as Chebyshev's do, squared."""
    s = np.sin(np.pi / 2 * np.sin(np.pi / 2 * (np.arange(count) + 0.5) / count) ** 2) ** 2
    return start + (end - start) * s


def circle(centre: complex, radius: float, count: int = 240) -> Array:
    return centre + radius * np.exp(2j * np.pi * np.arange(count) / count)


def inward(corners: Sequence[complex]) -> list[complex]:
    """The bisector into the polygon at every corner, counter-clockwise."""
    found = []
    for k, corner in enumerate(corners):
        back, on = corners[k - 1] - corner, corners[(k + 1) % len(corners)] - corner
        angle = np.angle(back / on) % (2 * np.pi)
        found.append(complex(on / abs(on) * np.exp(0.5j * angle)))
    return found


def spacing(z: Array) -> Array:
    """Square roots of how much of the boundary every point stands for: least squares then fit the mean square."""
    steps = np.abs(np.diff(z))
    return np.sqrt(np.concatenate([steps[:1], (steps[1:] + steps[:-1]) / 2, steps[-1:]]))


def mean_square(missed: Sequence[tuple[Array, Array]]) -> float:
    """Root of the mean square over the boundary of what is missed, (points, residuals) per part."""
    total = sum(float(np.square(np.abs(r) * spacing(z)).sum()) for z, r in missed)
    return float(np.sqrt(total / sum(float(np.square(spacing(z)).sum()) for z, _ in missed)))


def least_squares(rows: Array, wanted: Array, weights: Array) -> Array:
    """Weights of the functions, columns scaled alike; what rounding cannot tell apart gets no weight."""
    rows = rows * weights[:, None]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1
    return np.linalg.lstsq(rows / scale, wanted * weights, rcond=1e-14)[0] / scale


def fit_harmonic(
    basis: Analytic,
    value: Sequence[tuple[Array, Combination]],
    conjugate: Sequence[Array] = (),
    logarithms: Sequence[complex] = (),
) -> tuple[Combination, float]:
    """u = Re f + sum c log |z - h| with u given on `value`; on `conjugate` Im f is one constant: no flux through it."""

    def rows(z: Array, conjugated: bool) -> Array:
        matrix = basis.matrix(z)[0]
        if conjugated:  # Im (c f) = Re (-i c f); without holes there are no logarithms
            return np.concatenate([matrix.imag, matrix.real, -np.ones((len(z), 1))], axis=1)
        logs = [np.log(np.abs(z - h))[:, None] for h in logarithms]
        constant = [np.zeros((len(z), 1))] if conjugate else []
        return np.concatenate([matrix.real, -matrix.imag, *logs, *constant], axis=1)

    given = [(z, g(z), False) for z, g in value] + [(z, np.zeros(len(z)), True) for z in conjugate]
    matrix = np.concatenate([rows(z[::2], kind) for z, _, kind in given])
    wanted, weights = (np.concatenate(p) for p in zip(*((g[::2], spacing(z[::2])) for z, g, _ in given), strict=True))
    found = least_squares(matrix, wanted, weights)
    missed = [(z[1::2], rows(z[1::2], kind) @ found - g[1::2]) for z, g, kind in given]
    return lambda z: rows(z, False) @ found, mean_square(missed)


def fit_goursat(
    basis: Analytic,
    kappa: float,
    displacement: Sequence[tuple[Array, Combination]],
    force: Sequence[tuple[Array, Combination]] = (),
) -> tuple[Combination, float]:
    """w = kappa phi - z conj(phi') - conj(psi), given on `displacement`; phi + z conj(phi') + conj(psi) on `force`.

    With kappa = 3 - 4 nu this is twice the shear modulus times the displacement of plane strain, and the second is i
    times the integral of the traction along the boundary (counter-clockwise); with kappa = 1 it is a Stokes flow.
    """

    def rows(z: Array, factor: float, sign: float) -> Array:
        """Two real rows per point; columns: real and imaginary parts of phi's weights, then of psi's."""
        values, slopes = basis.matrix(z)
        turned = (z[:, None] - basis.origins) * slopes.conj()  # another origin changes psi, not the space
        first = [factor * values + sign * turned, 1j * (factor * values - sign * turned)]
        second = [sign * values.conj(), -1j * sign * values.conj()]
        whole = np.concatenate([*first, *second], axis=1)
        return split(whole)

    given = [(z, g, kappa, -1.0) for z, g in displacement] + [(z, g, 1.0, 1.0) for z, g in force]
    matrix = np.concatenate([rows(z[::2], a, s) for z, _, a, s in given])
    wanted = np.concatenate([split(g(z[::2])) for z, g, _, _ in given])
    found = least_squares(matrix, wanted, np.concatenate([np.tile(spacing(z[::2]), 2) for z, *_ in given]))
    missed = [(z[1::2], join(rows(z[1::2], a, s) @ found) - g(z[1::2])) for z, g, a, s in given]
    return lambda z: join(rows(z, kappa, -1.0) @ found), mean_square(missed)


def split(values: Array) -> Array:
    """Real parts, then imaginary parts."""
    return np.concatenate([values.real, values.imag])


def join(parts: Array) -> Array:
    """Back from `split`."""
    return parts[: len(parts) // 2] + 1j * parts[len(parts) // 2 :]


def exponents(equation: Combination, largest: float) -> list[complex]:
    """Roots with 0 < Re <= largest and Im >= 0, and their conjugates, by Newton from a grid."""
    real, imaginary = np.meshgrid(np.arange(0.05, largest + 1, 0.1), np.arange(0, 4, 0.2))
    z = (real + 1j * imaginary).ravel()
    for _ in range(60):
        step = 1e-6
        slope = (equation(z + step) - equation(z - step)) / (2 * step)
        z = z - np.clip(np.abs(equation(z) / slope), 0, 0.2) * np.exp(1j * np.angle(equation(z) / slope))
    good = z[(np.abs(equation(z)) < 1e-9) & (z.real > 0.02) & (z.real <= largest) & (z.imag > -1e-9)]
    roots: list[complex] = []
    for root in good[np.argsort(good.real)]:
        if all(abs(root - r) > 1e-5 for r in roots):
            roots.append(complex(root) if root.imag > 1e-6 else complex(root.real))
    return [w for r in roots for w in ([r, r.conjugate()] if r.imag else [r])]
