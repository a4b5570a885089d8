"""Kernels: profiles k(s) of a squared distance (or of a dot product), with all their derivatives in s.

A kernel scales its arguments (`scaled`), then sees only s = |z - z'|^2 >= 0; `profile(s, n)` returns k and its first n
derivatives. Writing kernels in s, never in the distance r, keeps every derivative finite at the centre, where the
diagonal of the system sits. Where a derivative in s grows like a negative power of r (Matern, Wendland beyond half
their smoothness), it is always multiplied by factors that vanish faster; `away_from_zero` keeps it finite there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.at_centre import FACTORIAL, LEAST, away_from_zero, least_square, smooth_at_centre
from cnf.bases.chain import chained, chained_gaussian, highest
from cnf.bases.part import Part
from cnf.bases.wendland import horner, power_of, wendland_table
from cnf.errors import BasisError
from cnf.operators.detail import Detail, Even, Peaks, Poles, unknown
from cnf.operators.expansion import Request
from cnf.operators.jets import Bundle

Bandwidth = float | Sequence[float] | Tensor
MOST_DIMENSIONS = 64  # that a Wendland kernel is positive definite in; its exact polynomials grow with them


def positive_lengths(given: object, word: str, dtype: torch.dtype = torch.float64) -> Tensor:
    """A number or several as a tensor of its own, checked to be positive and finite."""
    try:
        value = torch.as_tensor(given, dtype=dtype).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        value = torch.zeros(())
    if not bool(torch.isfinite(value).all()) or not bool((value > 0).all()):
        raise BasisError(f"a {word} is a positive number, or one per coordinate; got {given!r}")
    return value


class KernelProfile(Part):
    """Base of all kernels.

    >>> [issubclass(kind, cnf.kernels.KernelProfile) for kind in (cnf.kernels.Gaussian, cnf.kernels.Wendland)]
    [True, True]
    """

    distance: bool = True  # False: s is the dot product of the two features
    smoothness: int | None = None
    positive_definite: bool = True
    support: Tensor | None = None  # distance beyond which the kernel is zero; None: it never is
    gaussian: bool = False  # True: every derivative in s is -1/2 times the one before
    units: float | None = None  # natural units of the kernel per length, for integrals; None: not known
    reach: float = math.inf  # lengths from the centre beyond which it vanishes to rounding
    edges: tuple[float, ...] = ()  # lengths from the centre at which it has kinks

    def scaled(self, features: Tensor) -> Tensor:
        """Features (P, F) in units of the length of the kernel."""
        return features

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        """k(s) and its first `order` derivatives."""
        raise NotImplementedError

    @torch.no_grad()
    def numbers(self, s: np.ndarray, order: int) -> list[np.ndarray]:
        """The same as plain numbers, for sums over very many pairs; `s` may be written over."""
        return [k.numpy() for k in self.profile(torch.from_numpy(s), order)]

    def detail(self, centres: Tensor | None, dimension: int) -> Detail:
        """How fast the kernel varies around the centres (N, D); around any point if they are None."""
        if self.units is None:
            return unknown(
                dimension, f"how fast {type(self).__name__} varies is not known; set its `units` and `reach`"
            )
        like = next(self.parameters(), torch.empty(0))
        ones = torch.ones(dimension, dtype=torch.float64, device=like.device)
        lengths = 1 / self.scaled(ones).detach().to(torch.float64).cpu().numpy()
        if centres is None:
            return Even(self.units / lengths)
        at = centres.detach().to(torch.float64).cpu().numpy()
        return Peaks(at, lengths[None].repeat(at.shape[0], axis=0), self.units, self.reach, self.edges)

    def chain(
        self,
        requests: Sequence[Request],
        s: Tensor,
        argument: Bundle,
        first_order: Callable[[Request], Tensor | None] | None = None,
    ) -> Tensor:
        """Rows of A from s (P, N) and its derivatives, (P, K, N)."""
        if self.gaussian:
            return chained_gaussian(requests, self.profile(s, 0)[0], argument, first_order)
        return chained(requests, self.profile(s, highest(requests)), argument, first_order)


class ScaledKernel(KernelProfile):
    """A kernel with a learnable length: one number, or one per coordinate, kept positive by its logarithm."""

    def __init__(self, length: Bandwidth, word: str):
        super().__init__()
        value = positive_lengths(length, word)
        if value.dim() > 1:
            raise BasisError(f"a {word} is a positive number, or one per coordinate; got {length!r}")
        self.log_length = nn.Parameter(value.log())

    @property
    def length(self) -> Tensor:
        return self.log_length.exp()

    def scaled(self, features: Tensor) -> Tensor:
        if self.log_length.dim() and self.log_length.shape[0] != features.shape[-1]:
            raise BasisError(
                f"the kernel has {self.log_length.shape[0]} bandwidths for features of width {features.shape[-1]}; "
                "give one number, or one per coordinate (with an encoder: one per feature)"
            )
        return features / self.length

    def _length_config(self) -> float | list[float]:
        return self.length.detach().tolist()


class GaussianKernel(ScaledKernel):
    """Base of the kernels with a bandwidth whose derivatives in s are all multiples of the value."""

    gaussian = True

    def __init__(self, bandwidth: Bandwidth = 0.1):
        super().__init__(bandwidth, "bandwidth")

    @property
    def bandwidth(self) -> Tensor:
        return self.length

    def value(self, s: Tensor) -> Tensor:
        """k(s)."""
        raise NotImplementedError

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        value = self.value(s)
        return [value] + [(-0.5) ** m * value for m in range(1, order + 1)]

    def config(self) -> dict:
        return {"bandwidth": self._length_config()}


class Gaussian(GaussianKernel):
    """exp(-|x - y|^2 / (2 bandwidth^2)).

    >>> at = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x", "u"), at, cnf.kernels.Gaussian(0.5))
    >>> [[round(k, 4) for k in row] for row in basis(at).tolist()]
    [[1.0, 0.1353], [0.1353, 1.0]]
    """

    units, reach = 2.0, 9.0

    def value(self, s: Tensor) -> Tensor:
        least = math.ceil(math.log(torch.finfo(s.dtype).tiny))  # beyond it, exp takes ten times as long
        return torch.exp((-0.5 * s).clamp_min(least)) - math.exp(least)


class TruncatedGaussian(GaussianKernel):
    """The Gaussian inside three bandwidths, zero outside: it jumps there by 1 %, so it serves values only.

    >>> at = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x", "u"), at, cnf.kernels.TruncatedGaussian(0.5))
    >>> [[round(k, 4) for k in row] for row in basis(at).tolist()]
    [[1.0, 0.1353], [0.1353, 1.0]]
    """

    smoothness = 0
    positive_definite = False
    CUTOFF = 9.0
    units, reach, edges = 2.0, 3.0, (3.0,)

    @property
    def support(self) -> Tensor:  # type: ignore[override]
        """The radius beyond which the kernel is zero."""
        return 3 * self.length

    def value(self, s: Tensor) -> Tensor:
        return torch.where(s < self.CUTOFF, torch.exp(-0.5 * s), torch.zeros_like(s))


class DotProduct(KernelProfile):
    """x . y: the neural kernel of NKF when used with an encoder.

    >>> at = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x", "u"), at, cnf.kernels.DotProduct())
    >>> [[round(k, 4) for k in row] for row in basis(at).tolist()]
    [[0.0, 0.0], [0.0, 1.0]]
    """

    distance = False
    positive_definite = False
    units = 0.0

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        return [s, torch.ones_like(s)][: order + 1] + [torch.zeros_like(s)] * (order - 1)

    def config(self) -> dict:
        return {}


class Pole(KernelProfile):
    """log r, the field of a point source in the plane: for anchors outside the domain, where the field is singular.

    Solutions of elliptic equations are singular in corners, and continue towards singularities inside holes; a few
    poles placed there do what thousands of smooth functions cannot.

    >>> outside = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x y", "u"), outside, cnf.kernels.Pole())
    >>> basis(torch.tensor([[1.0, 0.0]], dtype=torch.float64)).item()  # log 1
    0.0
    """

    positive_definite = False

    def detail(self, centres: Tensor | None, dimension: int) -> Detail:
        if centres is None:
            return unknown(dimension, "a Pole is singular at its centre, wherever that is")
        return Poles(centres.detach().to(torch.float64).cpu().numpy())

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        found, factor, power = [0.5 * s.log()], 0.5, 1 / s
        for n in range(1, order + 1):
            found.append(factor * power)
            factor, power = -n * factor, power / s
        return found

    def config(self) -> dict:
        return {}


class Matern(ScaledKernel):
    """Matern kernel of smoothness nu = 1/2, 3/2, 5/2, ...: 2 floor(nu) derivatives.

    With z = sqrt(2 nu) r, k is proportional to z^nu K_nu(z), and (1/z) d/dz lowers nu by one, so every derivative in s
    is again a Bessel function of half-integer order, a polynomial in 1/z times exp(-z).

    >>> at = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x", "u"), at, cnf.kernels.Matern(0.5, 1.0))
    >>> [[round(k, 4) for k in row] for row in basis(at).tolist()]
    [[1.0, 0.3679], [0.3679, 1.0]]
    """

    def __init__(self, smoothness: float = 2.5, bandwidth: Bandwidth = 0.1):
        super().__init__(bandwidth, "bandwidth")
        if smoothness <= 0 or smoothness > 8 or not float(smoothness - 0.5).is_integer():
            raise BasisError(f"the smoothness of a Matern kernel is 0.5, 1.5, 2.5, ... up to 7.5; got {smoothness!r}")
        self.nu, self._whole = float(smoothness), int(smoothness)
        self.smoothness = 2 * self._whole
        decay = math.sqrt(2 * self.nu)  # exp(-decay r) times a polynomial
        self.units, self.reach, self.edges = 2 * decay, 50 / decay, (0.0,)

    @property
    def bandwidth(self) -> Tensor:
        """The bandwidth, () or (D,), with its gradient."""
        return self.length

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        nu = self._whole + 0.5  # compilers take other numbers than whole ones for variables
        # k = c z^nu K_nu(z), z^2 = 2 nu s  ->  dk/ds = (2 nu / 2)(1/z) dk/dz, and (1/z d/dz) lowers nu with a minus
        z = torch.sqrt(2 * nu * s.clamp_min(LEAST))
        decay = torch.exp(-z)
        norm = self._at_zero(nu)
        found = []
        for m in range(order + 1):
            apart = z if m < nu else torch.sqrt(2 * nu * away_from_zero(s, round(2 * (m - nu))))
            found.append((-nu) ** m / norm * self._reduced(nu - m, apart, decay))
        at_zero = [(-nu) ** m / norm * self._at_zero(nu - m) for m in range(self._whole + 1)]
        return smooth_at_centre(s, found, at_zero)

    @staticmethod
    def _at_zero(mu: float) -> float:
        """`_reduced` at z = 0, for mu > 0."""
        p = int(mu - 0.5)
        return FACTORIAL[2 * p] / (FACTORIAL[p] * 2**p)

    @staticmethod
    def _reduced(mu: float, z: Tensor, decay: Tensor) -> Tensor:
        """z^mu K_|mu|(z) without the factor sqrt(pi / 2), for half-integer mu."""
        p = int(abs(mu) - 0.5)
        coefficients = [FACTORIAL[p + i] / (FACTORIAL[i] * FACTORIAL[p - i] * 2**i) for i in range(p + 1)]
        if mu > 0:  # sum_i a_i z^(p - i) exp(-z)
            total = torch.full_like(z, coefficients[0])
            for c in coefficients[1:]:
                total = total * z + c
            return total * decay
        inverse = 1 / z
        total = torch.full_like(z, coefficients[p])
        for c in reversed(coefficients[:p]):
            total = total * inverse + c
        return total * decay * inverse ** (p + 1)

    def config(self) -> dict:
        return {"smoothness": self.nu, "bandwidth": self._length_config()}


class Wendland(ScaledKernel):
    """Wendland's compactly supported kernel: zero beyond `radius`, 2 * smoothness derivatives.

    phi_k = I^k (1 - r)^l with (I f)(r) = int_r^1 t f(t) dt, so -(1/r) d/dr lowers k by one;
    l = floor(dimension/2) + k + 1 makes it positive definite up to `dimension` coordinates.

    >>> at = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> basis = cnf.bases.Kernel(cnf.Space("x", "u"), at, cnf.kernels.Wendland(1, radius=0.9))
    >>> [[round(k, 4) for k in row] for row in basis(at).tolist()]
    [[1.0, 0.0], [0.0, 1.0]]
    """

    units, reach, edges = 16.0, 1.0, (0.0, 1.0)

    def __init__(self, smoothness: int = 1, radius: Bandwidth = 1.0, dimension: int = 3):
        super().__init__(radius, "radius")
        if smoothness not in range(0, 6):
            raise BasisError(
                f"the smoothness of a Wendland kernel is 0, 1, ... 5 (C^0, C^2, ... C^10); got {smoothness!r}"
            )
        if dimension not in range(1, MOST_DIMENSIONS + 1):
            raise BasisError(f"a Wendland kernel is made for 1 to {MOST_DIMENSIONS} coordinates; got {dimension!r}")
        self.k, self.dimension = int(smoothness), int(dimension)
        self.smoothness = 2 * self.k
        exact = [wendland_table(self.dimension // 2 + self.k + 1, self.k - m) for m in range(2 * self.k + 1)]
        norm = exact[0][1][0]
        self._tables = [  # of every derivative in s = r^2, which has a factor -1/2 of that by -(1/r) d/dr
            (power, [float(c / norm) * (-0.5) ** m for c in coefficients], lowest)
            for m, (power, coefficients, lowest) in enumerate(exact)
        ]

    @property
    def radius(self) -> Tensor:
        """The radius beyond which the kernel is zero, () or (D,), with its gradient."""
        return self.length

    @property
    def support(self) -> Tensor:  # type: ignore[override]
        """The radius beyond which the kernel is zero."""
        return self.length

    def profile(self, s: Tensor, order: int) -> list[Tensor]:
        if order > 2 * self.k:
            raise BasisError(f"a Wendland kernel of smoothness {self.k} has {2 * self.k} derivatives, not {order}")
        root = torch.sqrt(s.clamp_min(LEAST))
        powers = {1: (1 - root).clamp_min(0)}
        found = []
        for m in range(order + 1):
            power, coefficients, lowest = self._tables[m]
            r = root if least_square(s.dtype, -lowest) == LEAST else torch.sqrt(away_from_zero(s, -lowest))
            if not power:
                found.append(torch.where(r < 1, horner(coefficients, r, lowest), 0.0))
            elif len(coefficients) == 1 and lowest in (0, -1):  # most of the time is passes through memory
                value = power_of(powers, power)
                found.append(coefficients[0] * (value / r if lowest else value))
            else:
                found.append(horner(coefficients, r, lowest) * power_of(powers, power))
        return smooth_at_centre(s, found, [table[1][0] for table in self._tables[: self.k + 1]])

    def numbers(self, s: np.ndarray, order: int) -> list[np.ndarray]:
        """In place where that can be: most of the time is passes through memory."""
        tables = self._tables[: order + 1]
        plain = order <= 2 * self.k and all(power and lowest in (0, -1) for power, _, lowest in tables)
        if not plain or not s.size or not s.min() > LEAST:  # at a centre there are other rules
            return super().numbers(s, order)
        r = np.sqrt(s, out=s)
        height = np.subtract(1.0, r)
        powers, found = {1: np.maximum(height, 0.0, out=height)}, []
        for power, coefficients, lowest in tables:
            if len(coefficients) == 1:
                k = coefficients[0] * power_of(powers, power)
            else:
                k = coefficients[-1] * r
                for c in reversed(coefficients[1:-1]):
                    k += c
                    k *= r
                k += coefficients[0]
                k *= power_of(powers, power)
            if lowest:
                k /= r
            found.append(k)
        return found

    def config(self) -> dict:
        return {"smoothness": self.k, "radius": self._length_config(), "dimension": self.dimension}
