"""Scattered measurements: three layouts in CSV and NPZ, spectra, interpolation, and tables that cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, FileError, NumericalWarning
from cnf.materials.reflectance import GGX, Scattered, above_horizon, directions, encode, list_materials, read_material
from cnf.materials.reflectance.spectra import convert_spectra, observe

HALF, POLAR = ["theta_h", "theta_d", "phi_d"], ["theta_i", "phi_i", "theta_o", "phi_o"]
VECTORS, COLOURS = ["wix", "wiy", "wiz", "wox", "woy", "woz"], ["r", "g", "b"]


@pytest.fixture
def measured(pairs) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles (P, 3) above the horizon and a metal's values there (P, 3)."""
    angles = pairs[above_horizon(pairs, 0.1)][:200]
    return angles, GGX("gold", 0.4)(angles)


def columns_of(layout: list[str], angles: torch.Tensor) -> np.ndarray:
    """The same pairs of directions in a layout."""
    wi, wo = (w.numpy() for w in directions(angles))
    if layout == HALF:
        return angles.numpy()
    if layout == VECTORS:
        return np.concatenate([wi, wo], 1)
    return np.stack(
        [f(w) for w in (wi, wo) for f in (lambda w: np.arccos(w[:, 2]), lambda w: np.arctan2(w[:, 1], w[:, 0]))], 1
    )


def write_csv(path, names, table, delimiter=","):
    """A CSV file with a header, numbers in full precision."""
    lines = [delimiter.join(names), *(delimiter.join(map(repr, map(float, row))) for row in table)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("layout", [HALF, POLAR, VECTORS], ids=["half", "polar", "vectors"])
def test_layouts_hold_the_same_measurements(tmp_path, measured, layout):
    """One set of measurements in each layout, as CSV and as two kinds of NPZ: the same angles and values."""
    angles, values = measured
    table = np.concatenate([columns_of(layout, angles), values.numpy()], 1)
    names = [*layout, *COLOURS]
    csv = write_csv(tmp_path / "sample 1.csv", names, table)
    single, joined = tmp_path / "single.npz", tmp_path / "joined.npz"
    np.savez(single, **dict(zip(names, table.T, strict=True)))
    np.savez(joined, **{"directions" if layout == VECTORS else "angles": table[:, :-3], "values": table[:, -3:]})
    for path in (csv, single, joined):
        found = read_material(path)
        assert isinstance(found, Scattered)
        assert torch.allclose(encode(found.angles), encode(angles), atol=1e-7)  # arccos loses digits near the normal
        assert torch.equal(found.values, values)
    assert list_materials(csv) == ["sample-1"]


def test_columns_in_any_order_and_with_long_names(tmp_path, measured):
    """Semicolons, quotes, capitals, red for r, another order and an extra column."""
    angles, values = measured
    table = np.concatenate([values.numpy(), angles.numpy()[:, ::-1], np.zeros((len(angles), 1))], 1)
    names = ['"Red"', "green", "Blue", "phi_d", "THETA_D", " theta_h", "note"]
    found = read_material(write_csv(tmp_path / "x.csv", names, table, ";"))
    assert torch.equal(found.angles, angles) and torch.equal(found.values, values)


def test_passes_through_its_measurements(measured):
    """At a measurement its value, also with light and eye swapped; a constant stays constant; 0 below the horizon."""
    angles, values = measured
    material = Scattered("gold", "gold", angles, values)
    assert torch.allclose(material(angles), values, rtol=1e-6)
    swapped = angles + torch.tensor([0, 0, math.pi], dtype=torch.float64)
    assert torch.allclose(material(swapped), values, rtol=1e-6)
    everywhere = torch.rand(500, 3, dtype=torch.float64) * math.pi / 2
    constant = Scattered("grey", "grey", angles, torch.full_like(values, 0.3))
    expected = 0.3 * above_horizon(everywhere).double()[:, None].expand(-1, 3)
    assert torch.allclose(constant(everywhere), expected, rtol=1e-12)


def test_angles_that_are_not_finite_are_not_valid(measured):
    """NaN and infinity give 0, like all that is not valid."""
    material = Scattered("gold", "gold", *measured)
    angles = torch.tensor([[math.nan, 0.2, 0.2], [0.2, math.inf, 0.2], [0.2, 0.2, 0.2]], dtype=torch.float64)
    assert material.valid(angles).tolist() == [False, False, True]
    assert (material(angles)[:2] == 0).all() and (material(angles)[2] > 0).all()


def test_interpolates_by_inverse_squares():
    """Two measurements, values 1 and 5, at encoded distances d and 2 d from a query: (1 / d^2 + 5 / 4 d^2) / (1 / d^2 +
    1 / 4 d^2) = 1.8. Along theta_h from 0.3, distances are chords 2 sin(angle / 2).
    """
    step = 0.1
    far = 2 * math.asin(2 * math.sin(step / 2))
    angles = torch.tensor([[0.3 - step, 0.2, 1.0], [0.3 + far, 0.2, 1.0]], dtype=torch.float64)
    material = Scattered("two", "two", angles, torch.tensor([[1.0] * 3, [5.0] * 3], dtype=torch.float64), neighbours=2)
    found = material(torch.tensor([[0.3, 0.2, 1.0]], dtype=torch.float64))
    assert torch.allclose(found, torch.full((1, 3), 1.8, dtype=torch.float64), rtol=1e-12)


def test_interpolation_gets_better_with_more_measurements():
    """A rough metal from 500 and from 32 times as many measurements: the error falls clearly (6D code of a 3D set)."""
    metal = GGX("copper", 0.5)
    draws = torch.rand(40_000, 3, dtype=torch.float64) * torch.tensor([1.5, 1.5, 2 * math.pi], dtype=torch.float64)
    draws = draws[above_horizon(draws, 0.2)]
    test, errors = draws[-1000:], []
    for count in (500, 16_000):
        material = Scattered("m", "m", draws[:count], metal(draws[:count]))
        errors.append(float((material(test) - metal(test)).abs().mean()))
    assert errors[1] < errors[0] / 2


def test_observer_matches_the_tables_of_1931():
    """Published values of the standard observer at 450, 555 and 600 nm, to the fit's accuracy of a few hundredths."""
    published = [[0.3362, 0.0380, 1.7721], [0.5121, 1.0000, 0.0057], [1.0622, 0.6310, 0.0008]]
    assert np.allclose(observe(np.array([450.0, 555.0, 600.0])), published, atol=0.03)


def test_a_flat_spectrum_is_white():
    """A flat spectrum of a is (a, a, a), on even and uneven wavelengths; a red, a green and a blue band look so."""
    even, uneven = np.linspace(400, 700, 31), np.array([390.0, 420, 500, 510, 600, 650, 720])
    for wavelengths in (even, uneven):
        flat = np.full((2, len(wavelengths)), [[1.0], [0.25]])
        assert np.allclose(convert_spectra(flat, wavelengths), [[1] * 3, [0.25] * 3], rtol=1e-12)
    bands = np.stack([(even > 600), (even > 500) & (even < 580), (even < 490)]).astype(float)
    assert convert_spectra(bands, even).argmax(axis=1).tolist() == [0, 1, 2]


def test_uneven_wavelengths_count_by_their_spacing():
    """A straight spectrum sampled densely below 520 nm and sparsely above has the colour it has on an even grid."""
    even = np.linspace(400, 700, 301)
    uneven = np.concatenate([np.arange(400, 520, 2.0), np.arange(520, 701, 10.0)])
    first, second = (convert_spectra((wavelengths / 700)[None], wavelengths) for wavelengths in (even, uneven))
    assert np.allclose(first, second, rtol=5e-3)
    assert first[0, 0] > first[0, 1] > first[0, 2]  # it rises, so it is reddish


def test_white_is_adapted_as_published():
    """Colours of three bands by Lindbloom's published matrix of Bradford's adaptation from equal energy to D65."""
    adapt = [[0.9531874, -0.0265906, 0.0238731], [-0.0382467, 1.0288406, 0.0094060], [0.0026068, -0.0030332, 1.0892565]]
    to_rgb = [[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]]  # of the sRGB standard
    wavelengths = np.linspace(400, 700, 31)
    bands = np.stack([wavelengths > 600, (wavelengths > 500) & (wavelengths < 580), wavelengths < 490]).astype(float)
    seen = observe(wavelengths)
    expected = bands @ (seen / seen.sum(0)) @ np.array(adapt).T @ np.array(to_rgb).T
    assert np.allclose(convert_spectra(bands, wavelengths), expected, atol=1e-3)


def test_spectra_are_linear():
    """Colours of sums are sums of colours."""
    wavelengths = np.linspace(400, 700, 31)
    spectra = np.random.default_rng(0).random((2, 31))
    first, second = convert_spectra(spectra, wavelengths)
    assert np.allclose(convert_spectra(spectra.sum(0, keepdims=True), wavelengths), first + second, rtol=1e-12)


@pytest.mark.parametrize("wavelengths", [[0.4, 0.5, 0.6], [600, 500, 400], [400, 500]])
def test_refuses_other_wavelengths(wavelengths):
    """Micrometres, falling order, another number than the spectra have."""
    with pytest.raises(ConstraintError):
        convert_spectra(np.ones((1, 3)), np.array(wavelengths, dtype=float))


def test_archives_of_spectra(tmp_path, measured):
    """Two grey materials as spectra: chosen by name, the value of each in all channels."""
    angles, _ = measured
    polar = columns_of(POLAR, angles)
    grey = np.linspace(0.1, 0.9, len(angles))
    arrays = {"wavelengths_nm": np.linspace(400, 700, 31).astype(np.float32)}
    for name, factor in (("slate", 1.0), ("chalk", 2.0)):
        arrays |= {f"{name}_angles": polar, f"{name}_f": factor * np.repeat(grey[:, None], 31, 1)}
    path = tmp_path / "cornell_two.npz"
    np.savez(path, **arrays)
    assert list_materials(path) == ["chalk", "slate"]
    found = read_material(path, "chalk")
    assert found.label == "Cornell chalk"
    assert np.allclose(found.values.numpy(), 2 * grey[:, None], rtol=1e-9)


def test_what_cannot_be_used_is_left_out_aloud(tmp_path):
    """A row below the horizon is dropped, a negative value is 0, and a warning counts both."""
    rows = [[0.1, 0.1, 0, 1, 2, 3], [1.5, 1.5, 0.1, 1, 1, 1], [0.2, 0.1, 0, -1, 2, 3]]
    path = write_csv(tmp_path / "x.csv", [*HALF, *COLOURS], rows)
    with pytest.warns(NumericalWarning, match="1 are not above the horizon and were left out, 1 have negative"):
        found = read_material(path)
    assert found.values.tolist() == [[1, 2, 3], [0, 2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("theta_h,theta_d,phi_d,r,g,b\n", "no measurements"),
        ("theta_h,theta_d,r,g,b\n0,0,1,1,1\n", "its first line names theta_h, theta_d, r"),
        ("0.1,0.1,0.1,1,1,1\n0.1,0.1,0.1,1,1,1\n", "expected theta_h"),
        ("theta_h,theta_d,phi_d,r,g,b\n0.1,0.1,0,1,1\n", "line 2: 5 entries, but the header names 6 columns"),
        ("theta_h,theta_d,phi_d,r,g,b\n0.1,0.1,0,1,1,1\n0.1,0.1,zero,1,1,1\n", "zero"),
        ("theta_h,theta_d,phi_d,r,g,b\n0.1,0.1,0,1,nan,1\n", "not finite, the first is number 0"),
        ("theta_h,theta_d,phi_d,r,g,b\n30,10,0,1,1,1\n", "multiply degrees"),
        ("theta_h,theta_h,theta_d,phi_d,r,g,b\n0,0,0,0,1,1,1\n", "named twice"),
        ("wix,wiy,wiz,wox,woy,woz,r,g,b\n0,0,2,0,0,1,1,1,1\n", "length 2"),
        ("theta_i,phi_i,theta_o,phi_o,r,g,b\n1.5707964,0,1.5707964,0,1,1,1\n", "no measurement of bad is above"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    """Each mistake in one line that names the file."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_material(path)
    assert "bad.csv" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"angles": np.zeros((5, 3)), "values": np.ones((4, 3))},
        {"angles": np.zeros((5, 2)), "values": np.ones((5, 3))},
        {"angles": np.zeros((0, 3)), "values": np.ones((0, 3))},
        {"angles": np.zeros((5, 3)), "values": np.array([["a"] * 3] * 5)},
        {"wavelengths_nm": np.linspace(400, 700, 4), "a_angles": np.zeros((5, 4)), "a_f": np.ones((5, 31))},
        {**{name: np.zeros(5) for name in [*HALF, "r", "g"]}, "b": np.zeros(4)},
    ],
)
def test_bad_archives(tmp_path, arrays):
    """Arrays that do not fit together."""
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(FileError, match=r"bad\.npz"):
        read_material(tmp_path / "bad.npz")


def test_measured_paints(brdf_folder):
    """Cornell's garnet red is red and its krylon blue is blue in the median, with all their directions."""
    path = brdf_folder / "cornell_scattered5.npz"
    assert list_materials(path) == ["acryl_blue", "cayman", "garnet_red", "krylon_blue", "mystique"]
    for name, channel in (("garnet_red", 0), ("krylon_blue", 2)):
        with pytest.warns(NumericalWarning, match="too pure a colour"):
            paint = read_material(path, name)
        assert len(paint.angles) == 1439 and paint.label == f"Cornell {name}"
        assert int(paint.values.median(0).values.argmax()) == channel
