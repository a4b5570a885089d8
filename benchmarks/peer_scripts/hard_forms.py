"""Hard constraints as the peers state them: a formula by hand for every problem.

`transform` is DeepXDE's way, u = lift + factor * network; `connect` is the constrained expression of functional
connections, u = g minus what g gets wrong on the boundary. Both are plain arithmetic and take the module that knows
sin (numpy, torch or jax.numpy), so tests can check them without any peer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PI = 3.141592653589793


def start_of_wave(x: Any, module: Any) -> Any:
    return module.sin(PI * x) + 0.5 * module.sin(4 * PI * x)


def transform(name: str, coordinates: list[Any], network: Any, module: Any) -> Any:
    """The field that meets the conditions of the problem, whatever the network gives."""
    x = coordinates[0]
    if name == "poisson1d":
        return x + x * (PI - x) * network  # the example of DeepXDE for this problem
    y = coordinates[1]
    if name in ("poisson2d", "peak", "helmholtz"):
        return x * (1 - x) * y * (1 - y) * network
    if name == "wave":  # t^2 keeps the velocity
        return start_of_wave(x, module) + x * (1 - x) * y * y * network
    if name == "advection":
        return module.sin(2 * PI * x) + y * network
    raise KeyError(name)


def connect(name: str, g: Callable[..., Any], g_t: Callable[..., Any], module: Any) -> Callable[..., Any]:
    """The constrained expression u of the problem as a function of the coordinates; `g_t` is dg/dt (for the wave)."""

    zero = module.zeros_like  # not 0 * x, which would still carry a derivative with respect to x

    def of_x(x: Any) -> Any:
        return g(x) + (1 - x / PI) * (0 - g(zero(x))) + x / PI * (PI - g(zero(x) + PI))

    def between_sides(x: Any, y: Any, h: Callable[..., Any] = g) -> Any:
        return h(x, y) - (1 - x) * h(zero(x), y) - x * h(zero(x) + 1, y)

    def of_square(x: Any, y: Any) -> Any:
        return between_sides(x, y) - (1 - y) * between_sides(x, zero(y)) - y * between_sides(x, zero(y) + 1)

    def of_wave(x: Any, t: Any) -> Any:
        first = between_sides(x, t) + start_of_wave(x, module) - between_sides(x, zero(t))
        return first - t * between_sides(x, zero(t), g_t)

    def of_advection(x: Any, t: Any) -> Any:
        return g(x, t) + module.sin(2 * PI * x) - g(x, zero(t))

    forms: dict[str, Callable[..., Any]] = {
        "poisson1d": of_x,
        "poisson2d": of_square,
        "peak": of_square,
        "helmholtz": of_square,
        "wave": of_wave,
        "advection": of_advection,
    }
    return forms[name]
