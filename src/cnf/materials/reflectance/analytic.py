"""Reflectance: generated ones, known in closed form.

`Lambert` reflects the same to all sides; `GGX` is a rough surface of tiny mirrors (the distribution of Walter et al.
2007 with Smith's height-correlated masking and Schlick's approximation of Fresnel), over an optional diffuse base. Both
are exactly the same with light and eye swapped, and neither reflects more than it receives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import above_horizon, cosines
from cnf.materials.reflectance.material import Material, evaluate_in_chunks, simplify_name

Colour = tuple[float, float, float]

METALS: dict[str, Colour] = {  # reflectance at normal incidence, linear RGB
    "gold": (1.0, 0.766, 0.336),
    "silver": (0.972, 0.960, 0.915),
    "copper": (0.955, 0.637, 0.538),
    "aluminium": (0.913, 0.921, 0.925),
    "chrome": (0.550, 0.556, 0.554),
    "iron": (0.560, 0.570, 0.580),
}
SMOOTHEST = 1e-3  # a smoother surface has a highlight that no grid of angles resolves


@dataclass(frozen=True)
class Lambert(Material):
    """The same reflectance for all pairs of directions: albedo / pi.

    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> white = cnf.materials.Lambert((1.0, 1.0, 1.0))
    >>> round(white(angles)[0, 0].item() * np.pi, 6)
    1.0
    """

    albedo: Colour = (0.5, 0.5, 0.5)
    name: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        colour = check_colour(self.albedo, "an albedo")
        object.__setattr__(self, "albedo", colour)
        name_material(self, f"Lambert {show_colour(colour)}")

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3); 0 below the horizon."""
        f = angles.new_tensor(self.albedo) / math.pi
        return torch.where(above_horizon(angles)[:, None], f, 0.0)


@dataclass(frozen=True)
class GGX(Material):
    """A rough surface: `specular` is the reflectance of its mirrors at normal incidence, `alpha` their spread.

    What the mirrors let through reaches a base of albedo `diffuse`, and is let through again on its way out.

    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> chrome = cnf.materials.GGX("chrome", alpha=0.2)
    >>> bool(chrome(angles)[0, 0] > chrome(angles)[1, 0])  # brightest in the mirror direction
    True
    """

    specular: Colour | str = "chrome"  # a colour or one of METALS
    alpha: float = 0.1
    diffuse: Colour = (0.0, 0.0, 0.0)
    name: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.specular, str):
            if self.specular not in METALS:
                raise ConstraintError(f"no metal {self.specular!r}; expected {', '.join(METALS)}, or a colour r,g,b")
            word = self.specular
            object.__setattr__(self, "specular", METALS[word])
        else:
            object.__setattr__(self, "specular", check_colour(self.specular, "a specular colour"))
            word = show_colour(self.specular)
        object.__setattr__(self, "diffuse", check_colour(self.diffuse, "a diffuse colour"))
        if not SMOOTHEST <= float(self.alpha) <= 1:
            raise ConstraintError(f"the roughness alpha must be between {SMOOTHEST} and 1, got {self.alpha}")
        base = f" on {show_colour(self.diffuse)}" if any(self.diffuse) else ""
        name_material(self, f"GGX {word} {self.alpha:g}{base}")

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3); 0 below the horizon."""
        return evaluate_in_chunks(self.evaluate, angles)

    def evaluate(self, angles: Tensor) -> Tensor:
        """All rows at once."""
        valid = above_horizon(angles)
        cos_i, cos_o = (torch.where(valid, c, 1.0) for c in cosines(angles))
        square = self.alpha**2
        # cos^2 (a^2 - 1) + 1 = cos^2 a^2 + sin^2, without the cancellation near the peak
        spread = square * angles[:, 0].cos().square() + angles[:, 0].sin().square()
        density = square / (math.pi * spread.square())  # of the mirrors' normals
        masking_i = (square + (1 - square) * cos_i.square()).sqrt()
        masking_o = (square + (1 - square) * cos_o.square()).sqrt()
        visible = 0.5 / (cos_o * masking_i + cos_i * masking_o)  # masking over 4 cos_i cos_o
        f = reflect_fresnel(self.specular, angles[:, 1].cos()) * (density * visible)[:, None]
        if any(self.diffuse):
            through = (1 - reflect_fresnel(self.specular, cos_i)) * (1 - reflect_fresnel(self.specular, cos_o))
            f = f + through * (angles.new_tensor(self.diffuse) / math.pi)
        return torch.where(valid[:, None], f, 0.0)


def plastic(colour: Colour, alpha: float = 0.1) -> GGX:
    """A diffuse colour under a clear rough coat of refractive index 1.5.

    >>> cnf.materials.plastic((0.8, 0.1, 0.1), alpha=0.05).alpha
    0.05
    """
    return GGX((0.04, 0.04, 0.04), alpha, colour, label=f"Plastic {show_colour(colour)} {alpha:g}")


def reflect_fresnel(normal: Colour | str, cosine: Tensor) -> Tensor:
    """Schlick's approximation: reflectance (P, 3) at a cosine (P,), from that at normal incidence."""
    least = cosine.new_tensor(normal)
    return least + (1 - least) * (1 - cosine.clamp(0, 1))[:, None] ** 5


def check_colour(colour: object, what: str) -> Colour:
    """Three numbers from 0 to 1; a single number stands for grey."""
    values = [colour] * 3 if isinstance(colour, int | float) else colour
    try:
        red, green, blue = (float(v) for v in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ConstraintError(f"{what} must be three numbers from 0 to 1, got {colour!r}") from None
    if not all(0 <= v <= 1 for v in (red, green, blue)):
        raise ConstraintError(f"{what} must be three numbers from 0 to 1, got {colour!r}")
    return red, green, blue


def show_colour(colour: object) -> str:
    """0.5 for grey, 0.8,0.1,0.1 for others."""
    values = [f"{v:g}" for v in colour]  # type: ignore[attr-defined]
    return values[0] if len(set(values)) == 1 else ",".join(values)


def name_material(material: Material, label: str) -> None:
    """Fill in the label and the name that were not given."""
    object.__setattr__(material, "label", material.label or label)
    object.__setattr__(material, "name", material.name or simplify_name(material.label.lower().replace(" ", "-")))
