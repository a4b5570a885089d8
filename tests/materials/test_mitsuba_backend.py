"""Pictures by Mitsuba: known light on known materials, and the same view as our own renderer."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, FileError, MissingExtraError
from cnf.materials.reflectance import GGX, Lambert, directions, plastic
from cnf.materials.reflectance.rgl import read_rgl
from cnf.materials.reflectance.rgl_writing import write_rgl
from cnf.materials.reflectance.tensor_file import write_tensor_file
from cnf.materials.rendering.environments import Environment
from cnf.materials.rendering.mitsuba_backend import render_with_mitsuba
from cnf.materials.rendering.sphere import prepare_scene, render_sphere

GREY = Lambert((0.5, 0.25, 0.125))


@pytest.fixture
def mitsuba():
    """The package, in the variant that runs everywhere."""
    package = pytest.importorskip("mitsuba")
    package.set_variant("scalar_rgb")
    return package


def sky(rows: int = 32) -> Environment:
    """Smooth light from above, with a red glow on the right and a blue one behind the camera on the left."""
    v, u = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(2 * rows) + 0.5) / (2 * rows), indexing="ij")
    up = torch.cos(v * torch.pi)
    right = torch.exp(-((u - 0.75) ** 2 + (v - 0.4) ** 2) / 0.01)
    behind = torch.exp(-((u - 0.1) ** 2 + (v - 0.5) ** 2) / 0.01)
    return Environment(torch.stack([1 + up + 9 * right, 1 + up, 1 + up + 9 * behind], -1))


def test_missing_package_names_the_extra(monkeypatch):
    """Without the package: one line that says what to install."""
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    with pytest.raises(MissingExtraError, match="pip install mitsuba"):
        render_with_mitsuba(GREY, sky())


def test_bad_arguments():
    """Sizes and samples out of range are refused before anything is done."""
    for arguments in ({"size": 4}, {"size": 10**5}, {"samples": 0}, {"samples": 2**30}):
        with pytest.raises(ConstraintError, match="samples was asked for"):
            render_with_mitsuba(GREY, sky(), **arguments)


def test_unknown_variant_and_damaged_file(mitsuba, tmp_path):
    """A variant that does not exist is answered with those that do, a damaged file with our one line."""
    with pytest.raises(ConstraintError, match="scalar_rgb"):
        render_with_mitsuba(GREY, sky(), variant="scalar_rbg")
    write_tensor_file(tmp_path / "a.bsdf", {"rgb": np.zeros(3, np.float32)})
    with pytest.raises(FileError, match="no measured BRDF"):
        render_with_mitsuba(tmp_path / "a.bsdf", sky())


def test_white_furnace(mitsuba):
    """Under light of 1 from everywhere a diffuse sphere shows its albedo, all over and on average to 1e-3."""
    picture = render_with_mitsuba(GREY, Environment(torch.ones(8, 16, 3)), size=32, samples=256)
    assert picture.shape == (32, 32, 3) and picture.dtype == torch.float64
    y, x = torch.meshgrid(*[(torch.arange(32) + 0.5) / 16 - 1] * 2, indexing="ij")
    radius = torch.hypot(x, y)
    shown = picture[radius < 0.9] / torch.tensor(GREY.albedo)
    assert (shown - 1).abs().max() < 0.02 and (shown.mean() - 1).abs() < 1e-3
    assert (picture[radius > 1.1] == 0).all()


def test_background_is_what_the_camera_sees(mitsuba):
    """Without perspective the camera sees the one direction straight ahead, around the sphere."""
    environment = sky()
    picture = render_with_mitsuba(GREY, environment, size=16, samples=4, background=True)
    ahead = environment.lookup(torch.tensor([[0.0, 0.0, -1.0]]))[0].double()
    torch.testing.assert_close(picture[0, 0], ahead, rtol=1e-4, atol=0)


@pytest.mark.parametrize("material", [plastic((0.1, 0.5, 0.2), 0.3), GGX("gold", 0.15)], ids=["plastic", "gold"])
def test_same_picture_as_ours(mitsuba, material):
    """Two renderers that share only the material: 1 % of the light apart at most, and mirrored 10 % or more."""
    environment, size = sky(), 48
    found = render_with_mitsuba(material, environment, size=size, samples=256)
    expected = render_sphere(material, environment, size=size)
    inside = prepare_scene(environment, size=size).mask  # the edge is another matter

    def apart(picture: torch.Tensor) -> float:
        return float((picture - expected)[inside].abs().sum() / expected[inside].sum())

    assert apart(found) < 0.01
    assert min(apart(found.flip(0)), apart(found.flip(1))) > 0.1


def test_mitsuba_evaluates_what_we_wrote(mitsuba, tmp_path):
    """Mitsuba's own values of a written file are those of our reader, to the float32 in which it computes."""
    path = write_rgl(tmp_path / "gold.bsdf", GGX("gold", 0.2), elevations=12, resolution=46)
    material, bsdf = read_rgl(path), mitsuba.load_dict({"type": "measured", "filename": str(path)})
    angles = torch.rand(500, 3, dtype=torch.float64) * torch.tensor([1.2, 1.2, 6.2])
    angles = angles[material.valid(angles)]
    light, eye = directions(angles)
    found = []
    for towards_light, towards_eye in zip(light.tolist(), eye.tolist(), strict=True):
        place = mitsuba.SurfaceInteraction3f()
        place.wi = mitsuba.Vector3f(towards_eye)
        found.append(np.array(bsdf.eval(mitsuba.BSDFContext(), place, mitsuba.Vector3f(towards_light))))
    expected = material.weighted(angles).numpy()
    np.testing.assert_allclose(np.array(found), expected, rtol=2e-3, atol=1e-4 * expected.max())


def test_sampling_matches_the_values(mitsuba, tmp_path):
    """Samples drawn by Mitsuba: value over density is the albedo on average, and hardly varies."""
    path = write_rgl(tmp_path / "grey.bsdf", Lambert((0.5, 0.5, 0.5)))
    bsdf = mitsuba.load_dict({"type": "measured", "filename": str(path)})
    place, random = mitsuba.SurfaceInteraction3f(), np.random.default_rng(0)
    for elevation in (0.2, 1.0):
        place.wi = mitsuba.Vector3f([float(np.sin(elevation)), 0.0, float(np.cos(elevation))])
        weights = []
        for first, second in random.uniform(size=(2000, 2)):
            _, weight = bsdf.sample(mitsuba.BSDFContext(), place, 0.5, mitsuba.Point2f(float(first), float(second)))
            weights.append(weight[0])
        assert abs(np.mean(weights) - 0.5) < 5e-3
        assert np.std(weights) < 0.05


def test_variant_is_put_back(mitsuba):
    """Rendering leaves Mitsuba in the variant, and with the log level, in which it was."""
    mitsuba.set_variant("scalar_rgb")
    mitsuba.set_log_level(mitsuba.LogLevel.Warn)
    render_with_mitsuba(GREY, sky(), size=8, samples=1)
    assert mitsuba.variant() == "scalar_rgb"
    assert mitsuba.logger().log_level() == mitsuba.LogLevel.Warn


def test_another_shape(mitsuba, tmp_path):
    """A cube, off the origin and of any size, fills the picture as the sphere does.

    Light of 1 from everywhere gives its face the albedo, from corner to corner.
    """
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * 7.0 + 100
    quads = [(1, 5, 7, 3), (0, 2, 6, 4), (0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f " + " ".join(str(k + 1) for k in quad) for quad in quads]
    (tmp_path / "cube.obj").write_text("\n".join(lines))
    white = Environment(torch.ones(8, 16, 3, dtype=torch.float64))
    found = render_with_mitsuba(GREY, white, 64, 16, shape=tmp_path / "cube.obj")
    assert float(found[0].abs().max()) == 0 < float(found[3, 3].min())  # the margin, and a corner
    assert (found[24:40, 24:40].mean((0, 1)) - torch.tensor([0.5, 0.25, 0.125])).abs().max() < 0.02
    with pytest.raises(FileError):
        render_with_mitsuba(GREY, white, 64, 1, shape=tmp_path / "nowhere.ply")
