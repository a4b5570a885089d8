"""Pictures of materials: pixels as they were given, the highlight where it was put, colours of known differences."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, MissingExtraError
from cnf.materials.rendering.metrics import ImageErrors
from cnf.materials.report import pictures
from cnf.materials.report.pictures import Panel, draw_comparison, error_scale, find_highlight, save_picture

Image = pytest.importorskip("PIL.Image")
colormaps = pytest.importorskip("matplotlib").colormaps


def ball(size: int = 64, spot: tuple[float, float] = (0.35, 0.3), level: float = 0.3) -> torch.Tensor:
    """A grey disc on black with a small clipped highlight at `spot` (row, column, shares of the size)."""
    row, column = torch.meshgrid(*[(torch.arange(size).double() + 0.5) / size] * 2, indexing="ij")
    disc = torch.hypot(row - 0.5, column - 0.5) < 0.48
    light = 4 * torch.exp(-((row - spot[0]) ** 2 + (column - spot[1]) ** 2) / (2 * 0.03**2))
    return (disc * (level + (1 - level) * light.clamp(0, 1)))[..., None].expand(-1, -1, 3).clamp(0, 1)


def read(path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def test_every_pixel_is_kept(tmp_path):
    """Values k / 255 are what 8 bits hold, so a PNG gives each of them back; nothing but the PNG is left behind."""
    values = torch.arange(256).repeat(3)[torch.randperm(768, generator=torch.Generator().manual_seed(0))]
    path = save_picture((values.double() / 255).reshape(16, 16, 3), tmp_path / "exact.png")
    assert np.array_equal(read(path), values.reshape(16, 16, 3).numpy())
    assert b"sRGB" in path.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["exact.png"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.01, 1.01])
def test_a_picture_that_is_not_tone_mapped_is_refused(value, tmp_path):
    image = torch.full((4, 4, 3), 0.5)
    image[1, 2, 0] = value
    with pytest.raises(ConstraintError, match="tone-mapped"):
        save_picture(image, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("image", [torch.zeros(4, 4), torch.zeros(0, 4, 3), torch.zeros(4, 4, 4), [[0.0]]])
def test_a_picture_of_another_shape_is_refused(image, tmp_path):
    with pytest.raises(ConstraintError, match=r"\(H, W, 3\)"):
        save_picture(image, tmp_path / "x.png")


@pytest.mark.parametrize("spot", [(0.35, 0.3), (0.6, 0.66), (0.3, 0.5)])
@pytest.mark.parametrize("level", [0.3, 0.8])
def test_the_close_up_is_centred_on_the_highlight(spot, level):
    """The only highlight of a disc is in the middle of the square, to two pixels, though the outline is steeper."""
    top, left, side = find_highlight(ball(96, spot, level).numpy())
    assert side == round(pictures.CLOSEUP * 96)
    assert (top + side / 2, left + side / 2) == pytest.approx((96 * spot[0], 96 * spot[1]), abs=2)


def test_the_close_up_is_centred_on_the_brightest_place():
    """A wide soft highlight that is cut off sharply on its left: the square is around its peak, not around the edge."""
    row, column = torch.meshgrid(*[(torch.arange(96).double() + 0.5) / 96] * 2, indexing="ij")
    soft = torch.exp(-((row - 0.45) ** 2 + (column - 0.55) ** 2) / (2 * 0.2**2)) * (column > 0.42)
    picture = (0.05 + 0.9 * soft)[..., None].expand(-1, -1, 3)
    top, left, side = find_highlight(picture.numpy())
    assert (top + side / 2, left + side / 2) == pytest.approx((96 * 0.45, 96 * 0.55), abs=1.5)


@pytest.mark.parametrize("shape", [(40, 40, 3), (1, 1, 3), (30, 50, 3), (2, 9, 3)])
def test_without_a_highlight_the_close_up_is_the_middle(shape):
    """Nothing to see: the square lies in the picture, and its middle is the picture's to a pixel."""
    top, left, side = find_highlight(np.full(shape, 0.5))
    assert (top + side / 2, left + side / 2) == pytest.approx((shape[0] / 2, shape[1] / 2), abs=1)
    assert top >= 0 and left >= 0 and top + side <= shape[0] and left + side <= shape[1]


@pytest.mark.parametrize(("level", "expected"), [(0.2, 0.5), (0.1, 0.2), (0.0, 0.01), (0.02, 0.05), (0.6, 1.0)])
def test_the_scale_of_errors_is_round(level, expected):
    """One and a half times the typical error, rounded up to 1, 2 or 5 times a power of ten, and never below 0.01."""
    assert error_scale([[np.full((8, 8), level)]]) == pytest.approx(expected)


def test_one_failed_method_does_not_set_the_scale():
    """Of three maps two have errors of 0.02 and one of 0.9: the scale stays that of the two."""
    maps = [np.full((8, 8), level) for level in (0.02, 0.02, 0.9)]
    assert error_scale([maps]) == pytest.approx(0.05)


@pytest.mark.parametrize("difference", [0.0, 0.2])
def test_the_error_map_has_the_colour_of_the_difference(difference, tmp_path):
    """A picture that is brighter by 0.2 everywhere: scale 0.5, so every pixel of its map has the colour of 0.4."""
    reference = torch.full((32, 32, 3), 0.3)
    panels = [Panel("Reference", reference), Panel("FFN", reference + difference, ImageErrors(difference, 14.0, 0.9))]
    shown = read(draw_comparison([("grey", panels)], tmp_path / "x.png"))
    cell = 2.2  # inches: the largest, for few columns
    x = pictures.LABEL + 1.5 * cell + pictures.GAP
    y = pictures.HEAD + 1.5 * cell + pictures.TEXT
    found = shown[round(y * pictures.DOTS), round(x * pictures.DOTS)]
    wanted = 255 * np.array(colormaps[pictures.ERROR_COLOURS](difference / 0.5)[:3])
    assert np.abs(found - wanted).max() <= 3


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (2, 4), (2, 9)])
@pytest.mark.parametrize("closeup", [True, False])
def test_figures_of_all_sizes(rows, columns, closeup, tmp_path):
    """Each is written whole, white at its corners, with room for every cell; a failed method does no harm."""
    panels = [Panel("Reference", ball())]
    for k in range(1, columns):
        errors = ImageErrors(0.1, math.nan if k == 2 else 20.0 + k, 0.9)
        panels.append(Panel(f"Method {k}", (ball() * (1 - 0.1 * k)), errors))
    path = draw_comparison([(f"material {k}", panels) for k in range(rows)], tmp_path / "x.png", closeup=closeup)
    shown = read(path)
    assert (shown[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()
    assert shown.shape[1] > columns * 1.35 * pictures.DOTS
    lines = 2 if columns > 1 or closeup else 1
    assert shown.shape[0] > lines * rows * 1.35 * pictures.DOTS
    assert [p.name for p in tmp_path.iterdir()] == ["x.png"]


def test_rows_that_do_not_fit_are_refused(tmp_path):
    """No rows, no reference, other columns, another size, values out of range: one clear line each."""
    good = [Panel("Reference", ball()), Panel("FFN", ball(), ImageErrors(0, 100, 1))]
    cases = [
        ([], "at least one row"),
        ([("a", [])], "at least the reference"),
        ([("a", good), ("b", good[:1])], "the row b"),
        ([("a", [good[0], Panel("FFN", ball(32))])], "its reference is"),
        ([("a", [good[0], Panel("FFN", ball() * math.nan)])], "'FFN' of a must be tone-mapped"),
    ]
    for rows, message in cases:
        with pytest.raises(ConstraintError, match=message):
            draw_comparison(rows, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["PIL", "matplotlib"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"\[viz\]"):
        if package == "PIL":
            save_picture(ball(), tmp_path / "x.png")
        else:
            draw_comparison([("a", [Panel("Reference", ball())])], tmp_path / "x.png")
