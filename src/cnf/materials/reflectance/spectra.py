"""Reflectance: reflectance spectra as linear sRGB.

In come spectra (P, W) at wavelengths (W,) in nanometres; out goes RGB (P, 3). The light is of equal energy at all
wavelengths, the eye is the CIE 1931 standard observer in the fit by sums of lobes of Wyman, Sloan and Shirley (2013).
The light's white is adapted to sRGB's (Bradford), so that a flat spectrum of 1 is (1, 1, 1).
"""

from __future__ import annotations

import numpy as np

from cnf.errors import ConstraintError

# per lobe: height, wavelength of its peak, spread below and above the peak (nm)
LOBES = {
    "x": [(1.056, 599.8, 37.9, 31.0), (0.362, 442.0, 16.0, 26.7), (-0.065, 501.1, 20.4, 26.2)],
    "y": [(0.821, 568.8, 46.9, 40.5), (0.286, 530.9, 16.3, 31.1)],
    "z": [(1.217, 437.0, 11.8, 36.0), (0.681, 459.0, 26.0, 13.8)],
}
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
WHITE = np.array([0.95047, 1.0, 1.08883])  # D65, the white of sRGB
FROM_XYZ = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]
)
VISIBLE = (360.0, 830.0)  # nm; beyond, the eye sees nothing


def observe(wavelengths: np.ndarray) -> np.ndarray:
    """The standard observer's response (W, 3) to x, y, z at wavelengths (W,) in nanometres."""
    columns = []
    for lobes in LOBES.values():
        total = np.zeros(len(wavelengths))
        for height, peak, below, above in lobes:
            distance = (wavelengths - peak) / np.where(wavelengths < peak, below, above)
            total += height * np.exp(-0.5 * distance**2)
        columns.append(total)
    return np.stack(columns, -1)


def convert_spectra(spectra: np.ndarray, wavelengths: np.ndarray) -> np.ndarray:
    """Linear sRGB (P, 3) of spectra (P, W); negative where a colour is too pure for sRGB."""
    wavelengths = np.asarray(wavelengths, dtype=np.float64)
    if spectra.ndim != 2 or wavelengths.ndim != 1 or spectra.shape[1] != len(wavelengths) or len(wavelengths) < 2:
        raise ConstraintError(
            f"spectra of shape {spectra.shape} at {wavelengths.shape} wavelengths; expected (P, W) and (W,), W > 1"
        )
    inside = (wavelengths >= VISIBLE[0]) & (wavelengths <= VISIBLE[1])
    if not (np.diff(wavelengths) > 0).all() or inside.sum() < 2:
        raise ConstraintError(
            f"wavelengths must rise and lie between {VISIBLE[0]:g} and {VISIBLE[1]:g} nanometres, "
            f"got {wavelengths[0]:g} to {wavelengths[-1]:g}"
        )
    weights = observe(wavelengths) * np.gradient(wavelengths)[:, None]  # (W, 3)
    xyz = np.asarray(spectra, dtype=np.float64) @ (weights / weights.sum(axis=0))  # flat 1 is (1, 1, 1)
    scale = (BRADFORD @ WHITE) / (BRADFORD @ np.ones(3))
    to_rgb = FROM_XYZ @ np.linalg.inv(BRADFORD) @ np.diag(scale) @ BRADFORD
    to_rgb /= to_rgb.sum(axis=1, keepdims=True)  # the published matrices are rounded; white is exact
    return xyz @ to_rgb.T
