"""Solutions of nonlinear problems of the gallery, found by other means: closed forms, integrators of SciPy, Fourier.

Each takes points (P, D) and gives values (P, C). None of them shares anything with the library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

MODES, STEPS = 4096, 1600  # of Allen and Cahn's equation: half the modes change it by 8e-9, half the steps by 2e-11


def steepened(points: np.ndarray, nu: float = 0.01 / np.pi) -> np.ndarray:
    """u_t + u u_x = nu u_xx from -sin(pi x) by Cole and Hopf: Gauss-Hermite nodes of the heat kernel."""
    x, t = points.T
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    y = x[:, None] - np.sqrt(4 * nu * t)[:, None] * nodes
    kernel = weights * np.exp(-(np.cos(np.pi * y) + 1) / (2 * np.pi * nu))
    return -((np.sin(np.pi * y) * kernel).sum(axis=1) / kernel.sum(axis=1))[:, None]


def pendulum(points: np.ndarray) -> np.ndarray:
    """u'' = -sin u from rest at 2: sin(u / 2) = k sn(K - t, k) with k = sin(1)."""
    k = np.sin(1.0)
    return 2 * np.arcsin(k * ellipj(ellipk(k**2) - points, k**2)[0])


def integrated(slope: Callable, begin: list[float], points: np.ndarray, longest: float) -> np.ndarray:
    """An ordinary equation by DOP853, with steps so short that what it interpolates between them is as good."""
    times, where = np.unique(points[:, 0], return_inverse=True)
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14, "max_step": longest, "t_eval": times}
    return solve_ivp(slope, [0, times[-1]], begin, **options).y.T[where.reshape(-1)]


def predators_and_prey(points: np.ndarray) -> np.ndarray:
    """u' = u - u v, v' = u v - v from (2, 1)."""
    return integrated(lambda t, y: [y[0] - y[0] * y[1], y[0] * y[1] - y[1]], [2, 1], points, 0.01)


def relaxing(points: np.ndarray) -> np.ndarray:
    """Van der Pol's u'' = 5 (1 - u^2) u' - u from rest at 2."""
    return integrated(lambda t, y: [y[1], 5 * (1 - y[0] ** 2) * y[1] - y[0]], [2, 0], points, 0.002)[:, :1]


@cache
def phase_modes(modes: int = MODES, steps: int = STEPS) -> np.ndarray:
    """Fourier coefficients (steps + 1, modes / 2 + 1) of u_t = 1e-4 u_xx + 5 u - 5 u^3 on [-1, 1] at equal times.

    Exponential time differencing of fourth order, its coefficients as means over a circle. The slope of the start jumps
    where the ends meet: its coefficients fall like 1 / k^2, and are taken from 64 times as many points.
    """
    k = np.pi * np.arange(modes // 2 + 1)
    h, fine = 1 / steps, 64 * modes
    z = -1e-4 * h * k[:, None] ** 2 + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    whole, half = np.exp(-1e-4 * h * k**2), np.exp(-0.5e-4 * h * k**2)
    q = h * ((np.exp(z / 2) - 1) / z).mean(axis=1).real
    first = h * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).mean(axis=1).real
    middle = h * ((2 + z + np.exp(z) * (z - 2)) / z**3).mean(axis=1).real
    last = h * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).mean(axis=1).real

    def beyond(v: np.ndarray) -> np.ndarray:
        u = np.fft.irfft(v, modes)
        return np.fft.rfft(5 * u - 5 * u**3)

    x = -1 + 2 * np.arange(fine) / fine
    v = np.fft.rfft(x**2 * np.cos(np.pi * x))[: modes // 2 + 1] * (modes / fine)
    found = [v]
    for _ in range(steps):
        at_start = beyond(v)
        a = half * v + q * at_start
        at_a = beyond(a)
        at_b = beyond(half * v + q * at_a)
        at_end = beyond(half * a + q * (2 * at_b - at_start))
        v = whole * v + first * at_start + 2 * middle * (at_a + at_b) + last * at_end
        found.append(v)
    return np.array(found)


def phases(points: np.ndarray, modes: int = MODES, steps: int = STEPS) -> np.ndarray:
    """Allen and Cahn's equation, between the times of `phase_modes` by polynomials through eight of them."""
    kept, (x, t) = phase_modes(modes, steps), points.T
    waves = np.exp(1j * np.pi * np.arange(modes // 2 + 1) * (x[:, None] + 1)) / modes  # (P, modes / 2 + 1)
    waves[:, 1:] *= 2
    first = np.clip(np.floor(t * steps).astype(int) - 3, 0, steps - 7)
    nodes = np.arange(8)
    at = (t * steps - first)[:, None]
    found = np.zeros(len(t))
    for j in nodes:
        others = nodes[nodes != j]
        share = ((at - others) / (j - others)).prod(axis=1)
        found += share * (waves * kept[first + j]).sum(axis=1).real
    return found[:, None]
