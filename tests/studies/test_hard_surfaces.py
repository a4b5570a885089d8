"""The study of hard surfaces: the forms are what they are called, and a case goes from points to the tables."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from cnf.meshes.distances import ClosestPoints
from cnf.meshes.mesh import Mesh
from studies.__main__ import run
from studies.hard_surfaces import forms
from studies.hard_surfaces.cases import CASES, MADE
from studies.hard_surfaces.report import make_tables
from studies.hard_surfaces.study import TOLD, HardSurfaces
from studies.shapes.collection import HELD_OUT, PAPER_SHAPES, STUDY_SHAPES, fit_to_cube, name_shapes
from studies.shapes.measures import compare, sample_oriented
from studies.shapes.torus import find_on_torus, sample_torus
from studies.tables import Cell
from tests.studies.ellipsoid import make_ellipsoid

COUNT = 4000


@pytest.mark.parametrize("name", [name for name in MADE if CASES[name].group != "uneven"])
def test_points_lie_on_their_form_and_normals_look_outward(name: str) -> None:
    """Of every form: points on its facets to 4e-5, distances that are known zero there, the box of size 2."""
    form = CASES[name].form
    assert form is not None
    drawn = form(COUNT, 0)
    found = ClosestPoints(drawn.truth).find(drawn.points)
    assert len(drawn.points) == COUNT and found.distances.max() < 4e-5
    cosines = (drawn.truth.face_normals[found.faces] * drawn.normals).sum(axis=1)
    assert np.sort(cosines)[2] > 0.999  # a point on an edge may lie in the other face
    lower, upper = drawn.truth.bounds
    assert (upper - lower).max() == pytest.approx(2, abs=1e-4)
    if drawn.known is not None:
        moved = drawn.points + 1e-3 * drawn.normals
        assert drawn.known(drawn.points)[0].max() < 1e-12
        distances, normals = drawn.known(moved)
        assert np.median(distances) == pytest.approx(1e-3, rel=1e-9)  # fewer beside an inner edge
        assert np.median((normals * drawn.normals).sum(axis=1)) == pytest.approx(1, abs=1e-12)


def test_volumes_and_gaps() -> None:
    """The slab encloses 4 thickness, two balls 8/3 pi r^3 with the gap asked for, a comb its plate and its fins."""
    slab = forms.make_slab(10_000, 0).truth
    thick = 1.5 * math.sqrt(8 / 10_000)
    assert slab.weld().is_watertight and slab.volume == pytest.approx(4 * thick, rel=1e-12)
    spheres = forms.make_near_spheres(1000, 0)
    x = spheres.truth.vertices[:, 0]
    gap = x[x > 0].min() - x[x < 0].max()
    assert gap == pytest.approx(0.5 * math.sqrt(2 * math.pi / 1000), rel=1e-3)
    assert spheres.truth.volume == pytest.approx(8 / 3 * math.pi * ((2 - gap) / 4) ** 3, rel=1e-3)
    fins = forms.make_fins(1000, 0).truth
    thick = 2 * math.sqrt((8 + 6 * 0.6 * 0.5 * 4) / 1000)
    assert fins.volume == pytest.approx(2 * thick + 6 * 0.6 * thick, rel=1e-12)


def test_known_distances_beyond_the_rim() -> None:
    """Of a hemisphere: the centre is 1 away, a point above the rim sqrt(1 + 1) from (0, 0, 1), one outside 0.5."""
    known = forms.make_open_sphere(math.pi / 2, 10, 0).known
    assert known is not None
    places = np.array([[0.0, 0, 0], [0, 0, 1], [1.5, 0, 0], [0, 1, 0.25], [0, 0, -0.5]])
    assert known(places)[0] == pytest.approx([1, math.sqrt(2), 0.5, 0.25, 0.5], abs=1e-12)


def test_distances_from_the_torus_itself() -> None:
    """Points moved along exact normals by less than the radius of curvature are that far, to rounding."""
    points, normals = sample_torus(300, 3)
    steps = np.linspace(-0.03, 0.03, 300)
    distances, found = find_on_torus(points + steps[:, None] * normals)
    assert distances == pytest.approx(np.abs(steps), abs=1e-10)
    assert (found * normals).sum(axis=1).min() > 1 - 1e-10


def test_one_half_is_ten_times_as_dense() -> None:
    """Of 30,000 points on an ellipsoid all on one side and a tenth of the others: shares 10/11 and 1/11.

    Those of the others are spread evenly, too: a half lies above the middle, also if the same seed drew all of them.
    """
    ball = fit_to_cube(make_ellipsoid())
    drawn = forms.Sampled(ball, *sample_oriented(ball, 30_000, 1))
    kept = forms.keep_unevenly(drawn, 12_000, 10.0, 1).points
    sparse = kept[:, 0] < np.median(drawn.points[:, 0])
    assert len(kept) == 12_000 and sparse.mean() == pytest.approx(1 / 11, abs=5 * math.sqrt(10 / 121 / 12_000))
    for axis in (1, 2):
        assert (kept[sparse, axis] > 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(sparse.sum()))


def test_held_out_shapes_are_none_that_defaults_were_chosen_on() -> None:
    """Apart from the paper's and armadillo; groups stand for their members, each once."""
    assert not {*PAPER_SHAPES, "armadillo"} & {*HELD_OUT}
    assert name_shapes(["study", "held-out"]) == [*STUDY_SHAPES, *HELD_OUT[1:]]


def test_the_largest_distance_sees_a_spike_that_samples_miss() -> None:
    """A needle of no width, 0.7 above an ellipsoid: no sample lies on it, its tip is a vertex."""
    ball = make_ellipsoid()
    top = ball.vertices[:, 2].argmax()
    tip = ball.vertices[top] + [0, 0, 0.7]
    spiked = Mesh(np.vstack([ball.vertices, tip]), np.vstack([ball.faces, [top, top, len(ball.vertices)]]))
    found = compare(spiked, ball, ball.vertices, samples=2000)
    assert found.hausdorff < 1e-9 and found.largest == pytest.approx(0.7, abs=1e-9)


def test_who_was_told() -> None:
    """Methods that are told of a rim run on open forms alone."""
    study = HardSurfaces(["slab", "hemisphere"], ["cnf-auto", "cnf-open"])
    assert [tuple(case.values()) for case in study.cases()] == [
        *(("slab", "cnf-auto"), ("hemisphere", "cnf-auto"), ("hemisphere", "cnf-open"))
    ]
    assert "cnf-open" in TOLD


def test_the_best_of_a_line_is_marked_and_counted() -> None:
    """Two methods on two forms: one best on each; a form that one of them failed on has a dash."""
    row = dict.fromkeys(("largest", "hausdorff", "seconds", "processor_seconds", "megabytes", "components"), 1.0)
    rows = [
        {**row, "form": "slab", "method": "cnf-auto", "chamfer": 1e-4, "notes": "a doubt"},
        {**row, "form": "slab", "method": "pymeshlab-apss", "chamfer": 2e-4},
        {**row, "form": "near-spheres", "method": "pymeshlab-apss", "chamfer": 3e-4},
    ]
    first, *_, said = make_tables(rows)
    assert first.rows[0] == ["slab", Cell("1.00", best=True), Cell("2.00")]
    assert first.rows[1] == ["near-spheres", Cell("-"), Cell("3.00", best=True)]
    assert first.rows[2] == ["best", Cell("1"), Cell("1")]
    assert said.rows == [["slab", "cnf-auto", "a doubt"]]


@pytest.mark.slow
def test_a_case_from_points_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hemisphere by cnf on a coarse grid: a flat cap reaches the centre, 1 from all of it; told, there is no cap."""
    arguments = ["surfaces-hard", "--forms", "hemisphere", "--methods", "cnf-auto,cnf-open", "--resolution", "24"]
    arguments += ["--samples", "5000", "--out", str(tmp_path)]
    assert run(arguments) == 0
    assert "Chamfer distance e-4" in capsys.readouterr().out
    closed, opened = csv.DictReader((tmp_path / "surfaces-hard.csv").read_text().splitlines())
    assert 0.8 < float(closed["largest"]) < 1.1
    assert float(opened["largest"]) < 0.5 * float(closed["largest"])
    assert float(opened["chamfer"]) < 0.5 * float(closed["chamfer"])
    assert run([*arguments, "--before", str(tmp_path), "--no-pictures"]) == 0
    assert "cnf-auto before" in capsys.readouterr().out
    assert (tmp_path / "surfaces-hard.png").stat().st_size > 0
