"""Rendered spheres: energy, directions and symmetry known beforehand, and light summed over a map cell by cell."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance import GGX, Lambert, half_difference
from cnf.materials.rendering.environments import SUN, Environment, facing_light, map_directions, studio
from cnf.materials.rendering.quadrature import Nodes, ring_angles, view_nodes
from cnf.materials.rendering.sphere import FILL, prepare_scene, render_sphere
from cnf.materials.rendering.stage import Stage
from cnf.materials.rendering.tone import tone_map
from cnf.materials.rendering.transport import OVERLAP, fall

WHITE = Environment(torch.ones(8, 16, 3, dtype=torch.float64))
STUDIO = studio()
SIZE = 48


def lopsided(angles: Tensor) -> Tensor:
    """A glossy reflectance that tells phi_d from -phi_d and light from view, which no real material does."""
    theta_h, theta_d, phi_d = angles.unbind(-1)
    lobe = torch.exp(-((theta_h / 0.3) ** 2))
    red, green = lobe * (1 + 0.9 * torch.sin(phi_d) * torch.sin(theta_d)), lobe * (1 + 0.9 * torch.cos(phi_d) * theta_d)
    return torch.stack([red, green, 0.3 + 0.2 * torch.cos(theta_d)], -1)


def light_at(reflectance, environment: Environment, normal: Tensor) -> Tensor:
    """Light (3,) towards the camera (+z) from a point with this normal: the sum over all cells of the map."""
    directions = environment.directions.reshape(-1, 3)
    area = environment.solid_angles.repeat_interleave(environment.radiance.shape[1])
    cosine = directions @ normal
    view = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    tangent = torch.nn.functional.normalize(torch.linalg.cross(torch.tensor([0.3, 1.0, -0.2]).double(), normal), dim=0)
    frame = torch.stack([tangent, torch.linalg.cross(normal, tangent), normal])
    up = cosine > 0
    local = directions[up] @ frame.T
    values = reflectance(half_difference(local, (frame @ view).expand_as(local)))
    return (values * environment.radiance.reshape(-1, 3)[up] * (cosine * area)[up, None]).sum(0)


def test_white_furnace():
    """Under light of 1 from everywhere a Lambertian sphere of albedo a has radiance a, at every pixel."""
    scene = prepare_scene(WHITE, SIZE)
    albedo = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    picture = scene.render(Lambert((0.2, 0.5, 0.9)))
    assert float((picture[scene.mask] / albedo - 1).abs().max()) < 3e-4
    assert float(picture[scene.coverage == 0].abs().max()) == 0


def test_quadrature_converges():
    """The cosine integrates to pi over the hemisphere, for all views; the error falls as the square of the spacing."""
    errors = []
    for steps in (24, 48, 96):
        totals = torch.stack([view_nodes(theta, steps).weights.sum() for theta in ring_angles(12).tolist()])
        errors.append(float((totals / math.pi - 1).square().mean().sqrt()))
    assert errors[2] < 1e-4
    assert errors[0] / errors[2] > 8  # 16 for the square, 4 if it were the spacing itself


def test_a_smooth_white_metal_reflects_nearly_all():
    """GGX of reflectance 1: mirrors hide each other, the more the rougher, so the light is below 1, but near."""
    scene = prepare_scene(WHITE, SIZE)
    smooth, rough = (scene.render(GGX((1.0, 1.0, 1.0), alpha))[scene.mask] for alpha in (0.02, 0.5))
    assert float(smooth.min()) > 0.98 and float(smooth.max()) < 1
    assert float(smooth.mean()) > 0.998
    assert float(rough.min()) > 0.5 and float(rough.max()) < 0.95


@pytest.mark.parametrize("level", [-2.0, 0.0, 0.25, 1.5, 1.9, 2.75])
def test_wide_cones_meet_blurred_maps(level):
    """A cone 2^level times as wide as level 0 is shared between the levels around it, in proportion to nearness.

    Level 1.9 is nine tenths level 2; narrower than level 0 is level 0. Nothing of a node's weight is lost.
    """
    rows, columns = (32, 16, 8, 4), 64
    directions = torch.nn.functional.normalize(torch.randn(50, 3, dtype=torch.float64), dim=-1)
    width = torch.full((50,), 0.5 * math.pi / rows[0] * 2**level / OVERLAP, dtype=torch.float64)
    weights = torch.rand(50, dtype=torch.float64)
    cells, shares = fall(Nodes(torch.zeros(50, 3, dtype=torch.float64), directions, weights, width), rows, columns)
    begins = torch.tensor([0, 32, 48, 56, 60]) * columns
    for number in range(4):
        on_level = (cells >= begins[number]) & (cells < begins[number + 1])
        expected = max(0.0, 1 - abs(max(level, 0.0) - number))
        assert torch.allclose((shares * on_level).sum(1), expected * weights, rtol=0, atol=1e-12), number


def test_light_scales():
    """Twice the light is twice the radiance; exposure is a factor."""
    double = Environment(2 * WHITE.radiance)
    material = GGX("gold", 0.2)
    single = render_sphere(material, WHITE, SIZE)
    assert torch.allclose(render_sphere(material, double, SIZE), 2 * single, rtol=1e-12, atol=1e-12)
    assert torch.allclose(render_sphere(material, WHITE, SIZE, exposure=3.0), 3 * single, rtol=1e-12)


@pytest.mark.parametrize("azimuth", [0, 100, 307])
def test_light_agrees_with_the_sum_over_the_map(azimuth):
    """Three reflectances, one of them without any symmetry: light on rings against a plain sum over 131072 cells."""
    scene = prepare_scene(STUDIO, SIZE, rings=6)
    turn = 2 * math.pi * azimuth / scene.transport.columns
    for reflectance in (lopsided, GGX("copper", 0.1), Lambert((0.3, 0.5, 0.7))):
        light = scene.light_rings(scene.reflect(reflectance))
        exposure = 0.8 / float(light.quantile(0.99))
        for ring, theta in enumerate(ring_angles(6).tolist()):
            normal = torch.tensor(
                [math.sin(theta) * math.cos(turn), math.sin(theta) * math.sin(turn), math.cos(theta)],
                dtype=torch.float64,
            )
            expected = tone_map(light_at(reflectance, STUDIO, normal), exposure)
            assert torch.allclose(tone_map(light[ring, azimuth], exposure), expected, rtol=0, atol=6e-3)


def shine_from(direction: tuple[float, float, float]) -> Environment:
    """A small bright light in the dark, smooth at its edge."""
    towards = torch.nn.functional.normalize(torch.tensor(direction, dtype=torch.float64), dim=0)
    distance = torch.acos((map_directions(128, 256) @ towards).clamp(-1, 1))
    return Environment((100 * torch.exp(-((distance / 0.05) ** 2)))[..., None].expand(-1, -1, 3))


@pytest.mark.parametrize(
    "direction", [(0.5, 0.0, 0.8), (0.0, 0.7, 0.7), (-0.6, -0.3, 0.4), (0.3, 0.9, -0.3), (0.02, 0.01, 1.0)]
)
def test_a_mirror_shows_a_light_where_it_must(direction):
    """The brightest pixel of a smooth metal has its normal half way between light and camera."""
    size = SIZE
    picture = render_sphere(GGX("silver", 0.02), shine_from(direction), size).sum(-1)
    row, column = divmod(int(picture.argmax()), size)
    x, y = ((column + 0.5) / size * 2 - 1) / FILL, -((row + 0.5) / size * 2 - 1) / FILL
    unit = torch.nn.functional.normalize(torch.tensor(direction, dtype=torch.float64), dim=0)
    half = torch.nn.functional.normalize(unit + torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), dim=0)
    assert math.hypot(x - float(half[0]), y - float(half[1])) < 1.5 * 2 / size / FILL
    assert float(picture.max()) > 50 * float(picture.quantile(0.5))


def test_mirrored_surroundings_give_the_mirrored_picture():
    """A real material cannot tell left from right; the quadrature's nodes could, but by no more than its error."""
    mirrored = STUDIO.mirrored()
    for material in (GGX("gold", 0.1), Lambert((0.5, 0.5, 0.5))):
        picture = tone_map(render_sphere(material, STUDIO, SIZE), 0.3)
        other = tone_map(render_sphere(material, mirrored, SIZE), 0.3)
        assert float((picture - other.flip(1)).square().mean().sqrt()) < 2e-3
        assert float((picture - other).square().mean().sqrt()) > 0.02  # the studio itself is not symmetric


def test_half_a_turn_moves_a_light_from_right_to_left():
    """A light exactly at the side, turned by 180 degrees about the vertical, is at the other side: the mirror image."""
    environment = shine_from((1.0, 0.4, 0.0))
    material = GGX("gold", 0.2)
    picture, turned = (render_sphere(material, e, SIZE) for e in (environment, environment.turned(180)))
    assert float(picture[:, SIZE // 2 :].sum()) > 20 * float(picture[:, : SIZE // 2].sum())
    assert torch.allclose(turned.flip(1), picture, rtol=0, atol=0.02 * float(picture.max()))


def test_invalid_angles_reflect_nothing():
    """Where `valid` says no, even NaN is left out: only light from above 60 degrees counts, 1/4 of a Lambertian's."""
    scene = prepare_scene(WHITE, SIZE)

    def narrow(angles: Tensor) -> Tensor:
        return angles[:, 0] < 0.3

    def partly_unknown(angles: Tensor) -> Tensor:
        return torch.where(narrow(angles)[:, None], 1 / math.pi, math.nan).expand(-1, 3)

    with pytest.raises(ConstraintError, match="valid"):
        scene.render(partly_unknown)
    picture = scene.render(partly_unknown, narrow)
    # In the middle (view along the normal) theta_h < 0.3 is light within 0.6 of the normal: sin^2 0.6 of the whole.
    assert float(picture[SIZE // 2, SIZE // 2, 0]) == pytest.approx(math.sin(0.6) ** 2, rel=0.03)


def test_what_is_no_reflectance_is_refused():
    """One column too few; sizes out of range."""
    with pytest.raises(ConstraintError, match="shape"):
        render_sphere(lambda angles: angles[:, :2], WHITE, SIZE)
    for size in (4, 100000):
        with pytest.raises(ConstraintError, match="size"):
            prepare_scene(WHITE, size)


def test_coverage_and_background():
    """The sphere covers pi/4 FILL^2 of the picture; the rest is black, or the surroundings of radiance 1."""
    scene = prepare_scene(WHITE, SIZE)
    assert float(scene.coverage.mean()) == pytest.approx(math.pi / 4 * FILL**2, rel=2e-3)
    white = scene.render(Lambert((1.0, 1.0, 1.0)), background="environment")
    assert float((white - 1).abs().max()) < 1e-3  # edge pixels too: blended with what is behind
    black = scene.render(Lambert((1.0, 1.0, 1.0)))
    assert torch.allclose(black, white * scene.coverage[..., None], atol=1e-3)


def test_backdrop_is_upright():
    """Light above, ahead and to the right of the camera is in the upper right of the background."""
    backdrop = prepare_scene(shine_from((0.25, 0.15, -1.0)), SIZE).backdrop.sum(-1)
    row, column = divmod(int(backdrop.argmax()), SIZE)
    assert row < 21 and column > 27


def test_the_same_picture_every_time():
    """Nothing is random."""
    material = GGX("copper", 0.1)
    again = Environment(STUDIO.radiance.clone())
    assert torch.equal(render_sphere(material, STUDIO, SIZE), render_sphere(material, again, SIZE))


def test_a_light_that_faces_the_viewer():
    """The highlight lies where the normal halves the angle between view and sun, in the middle, and is not clipped."""
    stage = Stage.facing(GGX("gold", 0.1), 64, steps=48)
    row, column = divmod(int(stage.radiance.sum(-1).argmax()), 64)
    sun = torch.nn.functional.normalize(torch.tensor(SUN, dtype=torch.float64), dim=0)
    normal = torch.nn.functional.normalize(sun + torch.tensor([0.0, 0.0, 1.0]).double(), dim=0)
    expected = 32 + 32 * FILL * normal[0], 32 - 32 * FILL * normal[1]
    assert (column + 0.5, row + 0.5) == pytest.approx((float(expected[0]), float(expected[1])), abs=1)
    assert math.hypot(column - 31.5, row - 31.5) < 0.25 * 32 and float(stage.image[stage.scene.mask].max()) < 0.91
    seen = stage.view(GGX("gold", 0.1))
    assert seen.errors.rmse == 0 and seen.linear.l2 == 0
    assert stage.view(GGX("gold", 0.09)).linear.l2 > 0.05


def test_how_bright_the_facing_light_is():
    """On a surface that faces it, the sun gives twice the light of a room of radiance 1, which is pi."""
    light = facing_light(256)
    sun = torch.nn.functional.normalize(torch.tensor(SUN, dtype=torch.float64), dim=0)
    cosine = (light.directions @ sun).clamp_min(0)
    weights = (cosine * (cosine > math.cos(math.radians(12))) * light.solid_angles[:, None])[..., None]
    room = (1 + 0.5 * light.directions[..., 1:2]) * 0.9  # its red
    assert float(((light.radiance[..., :1] - room) * weights).sum()) == pytest.approx(2 * math.pi, rel=0.01)
