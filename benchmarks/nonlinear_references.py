"""Solutions of nonlinear problems of the gallery, found by other means: closed forms, integrators of SciPy, Fourier.

Each takes points (P, D) and gives values (P, C). None of them shares anything with the library. What is
known of a flow only in a few numbers is compared with these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from cnf import Answer

MODES, STEPS = 4096, 1600  # of Allen and Cahn's equation: half the modes change it by 8e-9, half the steps by 2e-11


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


def exponential_steps(v: np.ndarray, rates: np.ndarray, beyond: Callable, h: float, steps: int) -> np.ndarray:
    """v_t = rates v + beyond(v) for Fourier coefficients (K,), at equal times, (steps + 1, K).

    Exponential time differencing of fourth order, its coefficients as means over a circle.
    """
    z = h * rates[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    whole, half = np.exp(h * rates), np.exp(h * rates / 2)
    q = h * ((np.exp(z / 2) - 1) / z).mean(axis=1).real
    first = h * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).mean(axis=1).real
    middle = h * ((2 + z + np.exp(z) * (z - 2)) / z**3).mean(axis=1).real
    last = h * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).mean(axis=1).real
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


def summed_modes(kept: np.ndarray, h: float, phase: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Modes at equal times (steps + 1, K), at angles and times (P,), (P, 1): between times by degree seven."""
    steps, modes = len(kept) - 1, 2 * (kept.shape[1] - 1)
    waves = np.exp(1j * np.arange(kept.shape[1]) * phase[:, None]) / modes  # (P, K)
    waves[:, 1:] *= 2
    first = np.clip(np.floor(t / h).astype(int) - 3, 0, steps - 7)
    nodes = np.arange(8)
    at = (t / h - first)[:, None]
    found = np.zeros(len(t))
    for j in nodes:
        others = nodes[nodes != j]
        share = ((at - others) / (j - others)).prod(axis=1)
        found += share * (waves * kept[first + j]).sum(axis=1).real
    return found[:, None]


@cache
def phase_modes(modes: int = MODES, steps: int = STEPS) -> np.ndarray:
    """u_t = 1e-4 u_xx + 5 u - 5 u^3 on [-1, 1] during a time of one, as Fourier coefficients.

    The slope of the start jumps where the ends meet: its coefficients fall like 1 / k^2, and are taken from 64 times as
    many points.
    """
    fine = 64 * modes
    x = -1 + 2 * np.arange(fine) / fine
    start = np.fft.rfft(x**2 * np.cos(np.pi * x))[: modes // 2 + 1] * (modes / fine)

    def beyond(v: np.ndarray) -> np.ndarray:
        u = np.fft.irfft(v, modes)
        return np.fft.rfft(5 * u - 5 * u**3)

    return exponential_steps(start, -1e-4 * (np.pi * np.arange(modes // 2 + 1)) ** 2, beyond, 1 / steps, steps)


def phases(points: np.ndarray, modes: int = MODES, steps: int = STEPS) -> np.ndarray:
    """Allen and Cahn's equation at points (x, t)."""
    return summed_modes(phase_modes(modes, steps), 1 / steps, np.pi * (points[:, 0] + 1), points[:, 1])


@cache
def flame_modes(modes: int, steps: int) -> np.ndarray:
    """u_t + u u_x + u_xx + u_xxxx = 0 with the period 32 pi during a time of 30, as Fourier coefficients."""
    k = np.arange(modes // 2 + 1) / 16
    x = 32 * np.pi * np.arange(modes) / modes

    def beyond(v: np.ndarray) -> np.ndarray:
        return -0.5j * k * np.fft.rfft(np.fft.irfft(v, modes) ** 2)

    start = np.fft.rfft(np.cos(x / 16) * (1 + np.sin(x / 16)))
    return exponential_steps(start, k**2 - k**4, beyond, 30 / steps, steps)


def flame(points: np.ndarray, modes: int = 512, steps: int = 6000) -> np.ndarray:
    """Kuramoto and Sivashinsky's equation at points (x, t): twice the steps and half the modes change it by 1e-9."""
    return summed_modes(flame_modes(modes, steps), 30 / steps, points[:, 0] / 16, points[:, 1])


# Extremes of u up the middle of the cavity and of v across it: Botella and Peyret, Computers & Fluids 27 (1998), by
# Chebyshev polynomials beside the leading functions of both corners. Tables of Ghia, Ghia and Shin (1982) are off by
# 5e-3 from them.
STIRRED = {100: (-0.2140424, 0.1795728, -0.2538030), 1000: (-0.3885698, 0.3769447, -0.5270771)}


def off_centre_lines(answer: Answer) -> dict[str, float]:
    """By how much these extremes are off in the flow under a sliding lid, for u and for v."""
    lowest, highest, falling = STIRRED[round(float(answer.problem.parameters["Re"]))]
    along = torch.linspace(0, 1, 20001, dtype=torch.float64)[1:-1]
    middle = torch.full_like(along, 0.5)
    with torch.no_grad():
        u = answer(torch.stack([middle, along], dim=1))[:, 0]
        v = answer(torch.stack([along, middle], dim=1))[:, 1]
    off = (abs(float(v.max()) - highest), abs(float(v.min()) - falling))
    return {"u": abs(float(u.min()) - lowest), "v": max(off)}
