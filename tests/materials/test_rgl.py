"""RGL measurements: tensor files, warps, and the measured BRDF against known answers and Mitsuba's values."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
import torch

from cnf.errors import CnfError, FileError
from cnf.materials.reflectance import cosines, half_difference
from cnf.materials.reflectance.merl import grid_angles
from cnf.materials.reflectance.rgl import read_rgl
from cnf.materials.reflectance.tensor_file import read_tensor_file, write_tensor_file
from cnf.materials.reflectance.warps import GridStack, MarginalWarp, Slices


def light_and_eye(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Directions towards light and eye, (P, 3) each, uniform on the hemisphere above a cosine of 0.06."""
    random = np.random.default_rng(seed)
    z = random.uniform(0.06, 1, (2, count))
    phi = random.uniform(0, 2 * math.pi, (2, count))
    across = np.sqrt(1 - z**2)
    light, eye = np.stack([across * np.cos(phi), across * np.sin(phi), z], -1)
    return light, eye


def angles_of(light: np.ndarray, eye: np.ndarray) -> torch.Tensor:
    """Angles (P, 3) of pairs of directions."""
    return half_difference(torch.from_numpy(light), torch.from_numpy(eye))


def measurement(**changes) -> dict[str, np.ndarray]:
    """The fields of a valid file: reflectance times the cosine of the light is 1/2 everywhere."""
    fields = {
        "description": np.frombuffer(b"made\nup", np.uint8),
        "phi_i": np.zeros(1, np.float32),
        "theta_i": np.array([0, 0.5, np.pi / 2], np.float32),
        "sigma": np.ones((2, 3), np.float32),
        "ndf": np.ones((2, 3), np.float32),
        "vndf": np.ones((1, 3, 4, 5), np.float32),
        "luminance": np.ones((1, 3, 6, 6), np.float32),
        "rgb": np.full((1, 3, 3, 6, 6), 2, np.float32),
        "jacobian": np.ones(1, np.uint8),
    }
    return {name: field for name, field in (fields | changes).items() if field is not None}


def test_tensor_file_by_hand(tmp_path):
    """A file put together byte by byte: `ab`, two float32 at byte 72, and `c`, three uint8 before it."""
    head = b"tensor_file\0\x01\x00" + struct.pack("<I", 2)
    head += struct.pack("<H2sHBQQ", 2, b"ab", 1, 10, 72, 2) + struct.pack("<H1sHBQQ", 1, b"c", 1, 1, 66, 3)
    path = tmp_path / "a.bsdf"
    path.write_bytes(head + b"\0" * (66 - len(head)) + bytes([7, 8, 9]) + b"\0" * 3 + struct.pack("<2f", 1.5, -2))
    fields = read_tensor_file(path)
    assert list(fields) == ["ab", "c"]
    assert fields["ab"].dtype == np.float32 and fields["ab"].tolist() == [1.5, -2]
    assert fields["c"].dtype == np.uint8 and fields["c"].tolist() == [7, 8, 9]


def test_tensor_file_round_trip(tmp_path):
    """Arrays of every kind, empty, without axes, transposed or big-endian come back as they went, at multiples of 8."""
    random = np.random.default_rng(0)
    fields = {kind: (random.normal(size=(2, 3, 1)) * 50).astype(kind) for kind in ("u1", "i2", "u4", "i8", "f2", "f8")}
    fields |= {"none": np.zeros((0, 3), "f4"), "one": np.array(2.5), "turned": np.arange(6.0).reshape(2, 3).T}
    fields |= {"größe": np.arange(3, dtype=">i4")}
    path = write_tensor_file(tmp_path / "a.bsdf", fields)
    found = read_tensor_file(path)
    assert list(found) == list(fields)
    for name, field in fields.items():
        assert found[name].shape == field.shape and np.array_equal(found[name], field)
        assert found[name].dtype == field.dtype.newbyteorder("<")
    with pytest.raises(FileError, match="the type"):
        write_tensor_file(path, {"text": np.array(["a"])})
    assert list(read_tensor_file(path)) == list(fields)  # the old file is still there


def refuse(path) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(CnfError) as caught:
        read_rgl(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    return str(caught.value)


def test_damaged_tensor_files(tmp_path):
    """Cut anywhere, missing, a folder, garbage, or with a header that asks for more than there is: one line."""
    content = write_tensor_file(tmp_path / "good.bsdf", measurement()).read_bytes()
    path = tmp_path / "bad.bsdf"
    for length in [*range(0, 420), *range(420, len(content), 97)]:
        path.write_bytes(content[:length])
        refuse(path)
    refuse(tmp_path / "missing.bsdf")
    refuse(tmp_path)
    path.write_bytes(b"PK\x03\x04" + bytes(1000))
    assert "not a tensor file" in refuse(path)
    start = 14
    for place, layout, value in (
        (12, "<B", 9),  # version
        (start, "<I", 2**32 - 1),  # fields
        (start + 4, "<H", 65535),  # length of a name
        (start + 4 + 13, "<H", 65535),  # axes; `description` has 11 letters
        (start + 4 + 15, "<B", 99),  # kind of number
        (start + 4 + 16, "<Q", 2**64 - 1),  # place
        (start + 4 + 24, "<Q", 2**63),  # shape
    ):
        changed = bytearray(content)
        struct.pack_into(layout, changed, place, value)
        path.write_bytes(changed)
        refuse(path)


def test_flipped_bytes(tmp_path):
    """A thousand files with a few bytes of the header changed: a material, or an error of one line."""
    content = write_tensor_file(tmp_path / "good.bsdf", measurement()).read_bytes()
    random, path, refused = np.random.default_rng(0), tmp_path / "bad.bsdf", 0
    for _ in range(1000):
        changed = bytearray(content)
        for place in random.integers(12, 400, random.integers(1, 4)):
            changed[place] = random.integers(256)
        path.write_bytes(changed)
        try:
            read_rgl(path)
        except CnfError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rgb": None}, "no field 'rgb'"),
        ({"rgb": None, "spectra": np.ones((1, 3, 9, 6, 6), np.float32)}, "_rgb.bsdf"),
        ({"phi_i": np.linspace(0, 3, 4, dtype=np.float32)}, "anisotropic"),
        ({"theta_i": np.array([0, 1, 0.5], np.float32)}, "ascend"),
        ({"vndf": np.ones((1, 2, 4, 4), np.float32)}, "do not fit"),
        ({"vndf": np.zeros((1, 3, 4, 4), np.float32)}, "must be at least 0"),
        ({"ndf": np.ones((1, 5), np.float32)}, "two nodes"),
        ({"sigma": np.zeros((2, 2), np.float32)}, "sigma"),
        ({"rgb": np.full((1, 3, 3, 6, 6), np.nan, np.float32)}, "not finite"),
        ({"ndf": np.ones((2, 2), np.uint8)}, "uint8"),
    ],
)
def test_what_is_no_isotropic_measurement(tmp_path, changes, message):
    """Well-formed tensor files that describe no isotropic material in RGB say why."""
    assert message in refuse(write_tensor_file(tmp_path / "a.bsdf", measurement(**changes)))


def test_grids_are_linear_in_each_variable():
    """A grid of (1 + 2 x)(3 - y)(2 + t) is interpolated without error, and constant beyond the last t."""
    nodes = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    x, y = (torch.linspace(0, 1, n, dtype=torch.float64) for n in (5, 4))
    values = (2 + nodes)[:, None, None] * (3 - y)[:, None] * (1 + 2 * x)
    places = torch.rand(100, 3, dtype=torch.float64) * torch.tensor([1.0, 1.0, 1.4])
    t = places[:, 2].clamp(max=1)
    expected = (2 + t) * (3 - places[:, 1]) * (1 + 2 * places[:, 0])
    slices = Slices.at(places[:, 2], nodes)
    torch.testing.assert_close(GridStack(values)(places[:, 0], places[:, 1], slices), expected)
    both = GridStack(torch.stack([values, -values], -1))(places[:, 0], places[:, 1], slices)
    torch.testing.assert_close(both, torch.stack([expected, -expected], -1))


def test_warp_of_a_known_density():
    """p = 1 + x y / 2 at t = 0 and (1 + x)(1 + 2 y) / 3 at t = 1, mixed in between: shares integrated by hand."""
    nodes = torch.tensor([0.0, 1.0], dtype=torch.float64)
    grid_x, grid_y = (torch.linspace(0, 1, n, dtype=torch.float64) for n in (7, 4))
    first = 5 * (1 + grid_x * grid_y[:, None] / 2)  # its scale must not matter
    second = (1 + grid_x) * (1 + 2 * grid_y[:, None])
    x, y, t = torch.rand(3, 200, dtype=torch.float64)
    found = MarginalWarp(torch.stack([first, second]))(x, y, Slices.at(t, nodes))
    # Integrals over the rectangle up to (x, y) in y, and over x in one row, each divided by the integral of all.
    below = (1 - t) * (y + y**2 / 8) / 1.125 + t * (y + y**2) / 2
    left = (1 - t) * (x + x**2 * y / 4) / 1.125 + t * (x + x**2 / 2) * (1 + 2 * y) / 3
    whole = (1 - t) * (1 + y / 4) / 1.125 + t * 1.5 * (1 + 2 * y) / 3
    torch.testing.assert_close(found[1], below)
    torch.testing.assert_close(found[0], left / whole)


def test_measured_brdf_with_a_known_answer(tmp_path):
    """All parts of the model at once, each linear in its own coordinate, so that the file holds it without error.

    ndf = 2 - x_m, sigma = 1 - x_eye / 2, vndf = (1 + x)(1 + 2 y), rgb = (1 + s_x, 1 + s_y, theta_eye):
    f cos(light) = rgb (2 - x_m) / (4 (1 - x_eye / 2)), s_x = (x + x^2 / 2) / 1.5, s_y = (y + y^2) / 2,
    with x = sqrt(2 theta / pi) and y the azimuth of the half vector seen from that of the eye, from -pi to pi.
    """
    x, y, s = (np.linspace(0, 1, n) for n in (9, 5, 6))
    theta = np.array([0, 0.4, 1.1, np.pi / 2])
    vndf = np.broadcast_to((1 + x) * (1 + 2 * y[:, None]), (1, 4, 5, 9))
    sx, sy = np.broadcast_to(1 + s, (6, 6)), np.broadcast_to(1 + s[:, None], (6, 6))
    rgb = np.stack([np.stack([sx, sy, np.full((6, 6), t)]) for t in theta])[None]
    fields = measurement(
        theta_i=theta,
        ndf=np.broadcast_to(2 - x, (2, 9)),
        sigma=np.broadcast_to(1 - x / 2, (2, 9)),
        vndf=vndf,
        rgb=rgb,
        luminance=None,
    )
    material = read_rgl(write_tensor_file(tmp_path / "green_rgb.bsdf", fields))
    assert (material.name, material.label, material.description) == ("green", "RGL green", "made up")
    light, eye = light_and_eye(500)
    half = light + eye
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    u = np.sqrt(np.arccos(half[:, 2]) * 2 / np.pi)
    v = (np.arctan2(half[:, 1], half[:, 0]) - np.arctan2(eye[:, 1], eye[:, 0])) / (2 * np.pi) + 0.5
    v -= np.floor(v)
    elevation = np.arccos(eye[:, 2])
    colour = np.stack([1 + (u + u**2 / 2) / 1.5, 1 + (v + v**2) / 2, elevation], -1)
    expected = colour * ((2 - u) / (4 - 2 * np.sqrt(elevation * 2 / np.pi)) / light[:, 2])[:, None]
    np.testing.assert_allclose(material(angles_of(light, eye)).numpy(), expected, rtol=1e-9)
    unscaled = read_rgl(write_tensor_file(tmp_path / "raw.bsdf", fields | {"jacobian": np.zeros(1, np.uint8)}))
    np.testing.assert_allclose(unscaled(angles_of(light, eye)).numpy(), colour / light[:, 2:], rtol=1e-9)


def test_unknown_and_negative_values_are_zero(tmp_path):
    """Nothing is known at cosines up to 0.05, and a negative measurement counts as 0; the dtype is the caller's."""
    rgb = measurement()["rgb"].copy()
    rgb[:, :, 1] = -1
    material = read_rgl(write_tensor_file(tmp_path / "a.bsdf", measurement(rgb=rgb)))
    for cosine, known in ((0.0501, True), (0.0499, False), (-0.2, False)):
        grazing = torch.tensor([[math.sqrt(1 - cosine**2), 0, cosine]], dtype=torch.float64)
        up = torch.tensor([[0.6, 0, 0.8]], dtype=torch.float64)
        for light, eye in ((grazing, up), (up, grazing)):
            angles = half_difference(light, eye)
            assert material.valid(angles).item() is known
            expected = 0.5 / light[0, 2] if known else 0.0
            torch.testing.assert_close(material(angles)[0], torch.tensor([1.0, 0, 1]).double() * expected)
    assert material(angles.float()).dtype == torch.float32
    assert material(angles[:0]).shape == (0, 3)


@pytest.mark.parametrize("name", ["cg_sunflower", "cc_iris_purple_gem", "vch_golden_yellow", "paper_white"])
def test_against_mitsuba(brdf_folder, name):
    """Values that Mitsuba's `measured` gave on MERL's grid, kept as float16: equal but for their rounding.

    Left out are the half vector or the eye at the normal, where the model has no azimuth to go by. Mitsuba computed in
    float32, so that some values are rounded the other way, or, beside a noisy measurement, a few units off.
    """
    stored = np.load(brdf_folder / f"rgl/rgl_{name}_merlgrid.npz", allow_pickle=False)["f"].reshape(-1, 3)[::7]
    angles = grid_angles("nodes")[::7]
    material = read_rgl(brdf_folder / f"rgl/{name}_rgb.bsdf")
    known = stored[:, 0] >= 0
    assert np.array_equal(known, material.valid(angles).numpy())
    regular = known & (angles[:, 0] > 0).numpy() & (cosines(angles)[1] < 1 - 1e-9).numpy()
    found, stored = material(angles).numpy()[regular], stored[regular]
    unit = np.spacing(np.maximum(stored, np.float16(6e-5))).astype(float)  # of float16
    apart = np.abs(found - stored.astype(float)) / unit
    assert (found.astype(np.float16) == stored).mean() > 0.995
    assert (apart > 1).mean() < 5e-4 and apart.max() < 5
