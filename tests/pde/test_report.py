"""The report, the table and the pictures of an answer."""

from __future__ import annotations

import base64
import builtins
import math
import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import cnf
from cnf.errors import MissingExtraError
from cnf.pde.problems.check import read_back
from cnf.pde.report.asked import list_asked, show_parameter
from cnf.pde.report.field_caption import field_caption
from cnf.pde.report.field_plots import plot_field, styled_points
from cnf.pde.report.folder import write_answer
from cnf.pde.report.map_panels import find_decades, find_scale, math_name
from cnf.pde.report.page import report_markup
from cnf.pde.report.planes import MASK, find_outside, measure_residual, pixel_centres, sample_plane
from cnf.pde.report.table import answer_table, judge_answer, list_equations
from cnf.reports import mathml, plots
from tests.pde import stand_in

latex2mathml = pytest.importorskip("latex2mathml")
pytest.importorskip("matplotlib")


def parse(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup.replace("<!DOCTYPE html>\n", ""))


# -- the folder ------------------------------------------------------------------------------------------------------


def test_every_file_is_written(tmp_path):
    """A time problem in one dimension gets all kinds of files, each announced, and the field loads and solves again."""
    from PIL import Image

    answer, told = stand_in.advection_1d(), []
    paths = write_answer(answer, tmp_path / "new" / "out", told.append)
    assert [p.name for p in paths] == [
        "solution.pt",
        "certificate.txt",
        "summary.json",
        "solution.csv",
        "solution.npz",
        "solution.vti",
        "field.png",
        "tuning.png",
        "animation.gif",
        "report.html",
    ]
    assert sorted(p.name for p in (tmp_path / "new" / "out").iterdir()) == sorted(
        ["run.json", *(p.name for p in paths)]
    )
    assert set(told) >= {p.name for p in paths} - {"solution.vti"}
    for path in paths:
        if path.suffix in (".png", ".gif"):
            with Image.open(path) as picture:
                assert min(picture.size) > 200
                assert getattr(picture, "n_frames", 1) == (41 if path.suffix == ".gif" else 1)
    loaded = cnf.load(paths[0])
    x = torch.tensor([[0.3, 0.4]], dtype=torch.float64)
    assert abs(float(loaded(x)) - math.sin(2 * math.pi * (0.3 - 0.2))) < 1e-6


def test_without_pictures(tmp_path):
    """Numbers and report need no matplotlib; nothing is tuned, so nothing is said about trials."""
    answer = stand_in.wave_1d()
    answer.tuning.trials = answer.tuning.trials[:1]
    names = [p.name for p in write_answer(answer, tmp_path, pictures=False)]
    assert "report.html" in names and "field.png" not in names
    assert "<h2>Tuning" not in (tmp_path / "report.html").read_text()


def test_without_matplotlib(tmp_path, monkeypatch):
    """The missing package is named, with the line that installs it, before anything is written."""
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        write_answer(stand_in.wave_1d(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(stand_in.ALL))
def test_field_is_drawn(tmp_path, name):
    """Every kind of problem gives a picture that is not blank."""
    from PIL import Image

    with Image.open(plot_field(stand_in.ALL[name](), tmp_path / "field.png")) as picture:
        pixels = np.asarray(picture.convert("L"))
    assert 0.02 < (pixels < 250).mean() < 0.95


def test_outside_is_white(tmp_path):
    """The middle of the hole is white, the ring beside it is not."""
    plane = sample_plane(stand_in.ring_2d(), (0, 1), {}, 40)
    assert plane.mask is not None
    side = plane.mask.shape[0]
    column, row = (int(side * (v + 1) / 2) for v in (0.2, 0.1))
    assert plane.mask[row, column] and plane.mask[0, 0] and not plane.mask[side // 2, int(side * 0.85)]
    assert np.isfinite(plane.values).all()  # the nearest value inside, hidden by the mask
    assert abs(plane.mask.mean() - (1 - 0.91 * math.pi / 4)) < 2e-3


def test_planes_have_rows_along_the_second_coordinate():
    """u = x grows from left to right, v = -y falls from bottom to top, and the error is what it is."""
    plane = sample_plane(stand_in.flow_2d(), (0, 1), {}, 10)
    centres = -1 + 2 * (np.arange(10) + 0.5) / 10
    assert np.allclose(plane.values[0], np.tile(centres, (10, 1)), atol=1e-8)
    assert np.allclose(plane.values[1], -np.tile(centres[:, None], (1, 10)), atol=1e-8)
    assert plane.errors is not None and plane.errors.max() < 1e-8


def test_residual_is_that_of_the_equation():
    """-Laplace u - f by finite differences of the solution itself."""
    answer = stand_in.poisson_2d(with_exact=False, count=40)  # few points: a residual that differences can see
    points = torch.tensor([[0.31, 0.42], [0.77, 0.58]], dtype=torch.float64)
    found = measure_residual(answer, points)
    h = 1e-3
    steps = torch.tensor([[h, 0], [-h, 0], [0, h], [0, -h]], dtype=torch.float64)
    with torch.no_grad():
        around = sum(answer.solution(points + s)[:, 0] for s in steps)
        laplacian = (around - 4 * answer.solution(points)[:, 0]) / h**2
    side = 8 * math.pi**2 * torch.sin(2 * math.pi * points).prod(dim=1)
    assert found is not None
    assert np.allclose(found, (-laplacian - side).abs().numpy(), rtol=1e-2, atol=1e-3)


def test_colours_and_limits():
    """Signed values: limits symmetric about zero; others: their own range; constants: some room; errors: decades."""
    inside = [np.ones((2, 2), dtype=bool)]
    signed = find_scale([np.array([[-1.0, 0.5], [0.2, 0.3]])], inside, False)
    assert (signed["norm"].vmin, signed["norm"].vmax, signed["cmap"]) == (-1.0, 1.0, "coolwarm")
    positive = find_scale([np.array([[1.0, 2.0], [3.0, 4.0]])], inside, False)
    assert (positive["norm"].vmin, positive["norm"].vmax, positive["cmap"]) == (1.0, 4.0, "viridis")
    constant = find_scale([np.full((2, 2), 3.0)], inside, False)
    assert constant["norm"].vmin < 3.0 < constant["norm"].vmax
    assert find_decades([np.geomspace(2e-5, 3e-3, 99)]) == pytest.approx((1e-5, 1e-2))
    assert find_decades([np.zeros(3)])[0] > 0
    corner = np.append(np.geomspace(2e-5, 3e-3, 5000), [1e7, 1e9])  # two pixels at a singular corner
    assert find_decades([corner]) == pytest.approx((1e-5, 1e-2))
    assert [math_name(n) for n in ("u", "phi", "u_in", "speed")] == [
        "$u$",
        r"$\phi$",
        r"$u_{\mathrm{in}}$",
        r"$\mathrm{speed}$",
    ]


def test_hostile_names_are_drawn(tmp_path):
    """Dollar signs in a name are no formula for matplotlib; an integral has no points to draw."""
    answer = stand_in.poisson_2d(count=30)
    object.__setattr__(answer.field.constraints[1], "name", r"$\frac{$ <b>")
    answer.problem.equations[0].on = None
    assert [label for label, _, _ in styled_points(answer)] == [r"\$\frac{\$ <b> (60)"]
    plot_field(answer, tmp_path / "field.png")


# -- report ----------------------------------------------------------------------------------------------------------


def test_report_is_one_file(tmp_path):
    """Well formed, no scripts, nothing loaded from elsewhere, the picture inside bit for bit."""
    answer = stand_in.poisson_2d(count=60)
    picture = plot_field(answer, tmp_path / "field.png")
    markup = report_markup(answer, [picture])
    page = parse(markup)
    assert not list(page.iter("script")) and not list(page.iter("link"))
    (image,) = page.iter("img")
    head, data = image.get("src", "").split(",")
    assert head == "data:image/png;base64" and base64.b64decode(data) == picture.read_bytes()
    assert not re.search(r"https?://", markup.replace(data, ""))
    text = "".join(page.itertext())
    for expected in (
        "Poisson equation on the unit square",
        str(answer.certificate),
        'cnf.load("solution.pt")',
        "seed 0",
    ):
        assert expected in text
    assert "between the points" in text and "chosen" in text and f"torch {torch.__version__}" in text
    assert len(list(page.iter("math"))) >= 4


def test_report_escapes_everything():
    """Markup in titles, names, parts, equations and settings is shown, not obeyed."""
    attack = "<img src=x onerror=alert(1)>\"'&"
    answer = stand_in.wave_1d()
    answer.problem.title = answer.problem.description = attack
    for equation in answer.problem.equations:
        equation.on, equation.latex = attack, rf"\text{{{attack}}} \href{{javascript:alert(1)}}{{u}} = 0"
    answer.tuning.objective = attack
    answer.tuning.trials[0].settings[attack] = attack
    page = parse(report_markup(answer))
    assert not list(page.iter("img"))
    allowed = {"class", "scope", "lang", "charset", "name", "content"} | mathml.ATTRIBUTES
    for node in page.iter():
        assert set(node.attrib) <= allowed, node.attrib
    assert "".join(page.itertext()).count(attack) >= 5


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\partial_t u + \beta \partial_x u = 0", "∂tu+β∂xu=0"),
        (r"\nabla^2 u", "∇2u"),
        (r"-\Delta u = f", "−Δu=f"),
        (r"\int_0^1\!\int_0^1 u\,dx\,dy", "∫01∫01udxdy"),
        (r"\frac{\partial^2 u}{\partial x^2}", "∂2u∂x2"),
        (r"\mathbf{n}\cdot\nabla u", "𝐧·∇u"),
        (r"u_{xx} = \sin(2\pi x)", "uxx=sin(2πx)"),
        (r"\left( x + 1 \right)^2", "(x+1)2"),
        (r"\mathrm{speed} u", "speedu"),
        ("1.5e-05 u", "1.5·10−5u"),
    ],
)
def test_formulas(latex, text):
    """The notations of the reader become MathML with the same symbols in the same order."""
    tree = ElementTree.fromstring(mathml.typeset(latex))
    assert tree.tag == "math" and "".join(tree.itertext()) == text


@pytest.mark.parametrize("latex", [r"\frac{", r"\unknown{x}", r"\text{<b>x</b>}", "x" * 5000])
def test_formulas_that_cannot_be_typeset(latex):
    """The text is shown, escaped."""
    tree = ElementTree.fromstring(mathml.typeset(latex))
    assert tree.tag == "code" and tree.text == latex and len(tree) == 0


def test_without_converter(monkeypatch):
    """Without latex2mathml the LaTeX is shown, and the report says why."""
    real = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == "latex2mathml":
            raise ImportError(name)
        return real(name, *rest)

    answer = stand_in.wave_1d()
    monkeypatch.setattr(builtins, "__import__", refuse)
    page = parse(report_markup(answer))
    assert not list(page.iter("math"))
    assert "latex2mathml is not installed" in "".join(page.itertext())


def test_equation_as_read():
    """Both sides in normal form; tables of values are called data."""
    space = cnf.Space("x y", "u v")
    at = torch.zeros(2, 2, dtype=torch.float64)
    assert read_back(space.constraint("u_{xx} = 2 x", at=at)) == r"\partial_{x}^{2} u = 2 x"
    assert read_back(space.constraint("u; v", at=at, equals=1.0)) == "u = 1; v = 1"
    assert read_back(space.constraint("u", at=at, equals=torch.ones(2))) == r"u = \mathrm{data}"


def test_caption_says_which_of_error_and_residual_is_drawn():
    """With an exact solution the error, for the channels that have one; else the residual; nothing of the other."""
    assert field_caption(stand_in.wave_1d()) == "The solution and its error against the exact solution."
    without = stand_in.poisson_2d(with_exact=False, count=40)
    assert field_caption(without) == "The solution and the residual of the equations between the points."
    flow = stand_in.flow_2d()
    first = flow.problem.space.channels[0]
    flow.problem.exact = {first: flow.problem.exact[first]}
    assert field_caption(flow) == f"The solution and its error against the exact solution ({first})."


def test_what_was_asked_is_on_the_page():
    """Parameters as they were written, formulas typeset; target, start and continuation, on the way of one as well."""
    problem = cnf.Problem(
        "x y",
        "u v",
        domain=cnf.Box((0, 0), (1, 1)),
        equations={
            "interior": r"\Delta u + \mathbf{b} \cdot \nabla u = \lambda u^2 + s; \Delta v = u",
            "boundary": "u = 0; v = 0",
        },
        parameters={"lambda": 0.125, "s": r"\frac{x}{3}", "b": [1, "2 x"]},
        solve={"target": 1e-7, "start": {"u": r"\sin(\pi x)"}, "continuation": {"lambda": [0.5, 0.25]}},
    )
    asked = {label: parse(f"<p>{markup}</p>") for label, markup in list_asked(problem).items()}
    lines = {label: ["".join(line.itertext()) for line in found] for label, found in asked.items()}
    assert lines == {
        "Parameters": ["λ=0.125", "s=x3", "b=(1,2x)"],
        "Target": ["relative error 1·10−7"],
        "Start": ["u=sin(πx)"],
        "Continuation": ["λ through 0.5,0.25"],
    }
    assert list(asked["Parameters"].iter("mfrac"))
    later = problem.with_parameters({"lambda": 0.5}, problem.start, 1e-2)  # on the way of the continuation
    assert list_asked(later) == list_asked(problem)


def test_parameters_of_regions_and_of_python():
    """A value for every region in one line; what only Python knows is said to be."""
    assert "".join(parse(f"<p>{show_parameter('k', {'left': 2, 'rest': '1 + x'})}</p>").itertext()) == (
        "k=2 in left, k=1+x in rest"
    )
    assert "".join(parse(f"<p>{show_parameter('f', torch.sin)}</p>").itertext()) == "f given in Python"
    assert parse(f"<p>{show_parameter('k', {'<b>': '<i>'})}</p>").find("b") is None


def test_the_certificate_is_wrapped_in_its_box():
    """Its first line is longer than the page is wide."""
    page = parse(report_markup(stand_in.wave_1d()))
    (wrapped,) = [pre for pre in page.iter("pre") if pre.get("class") == "wrapped"]
    assert (wrapped.text or "").startswith("certificate: ")
    (style,) = page.iter("style")
    assert re.search(r"pre\.wrapped \{[^}]*white-space: pre-wrap", style.text or "")


def test_curves_of_three_channels_can_be_read(tmp_path, monkeypatch):
    """A page is 960 pixels wide: what is drawn much wider has small letters there."""
    from PIL import Image

    problem = cnf.Problem(
        "x",
        "u v w",
        domain={"type": "interval", "from": 0, "to": 1},
        equations={"interior": "u' = v; v' = w; w' = 0", "x = 0": "u = 1; v = 1; w = 1"},
        solve={"method": "patches"},
    )
    answer = problem.solve()
    with Image.open(plot_field(answer, tmp_path / "field.png")) as picture:
        assert picture.size[0] < 1.35 * 960
    drawn = []
    monkeypatch.setattr("cnf.pde.report.field_plots._plot_error", lambda panel, *given: drawn.append(given[-1]))
    plot_field(answer, tmp_path / "field.png")
    assert drawn == ["|residual|"]  # one of all equations: once, not once for every channel


# -- table -----------------------------------------------------------------------------------------------------------


def test_table():
    """One line per equation with the numbers of the certificate, then the facts."""
    answer = stand_in.poisson_2d()
    lines = answer_table(answer).splitlines()
    residual = answer.certificate.residuals["pde"]
    assert lines[2].split() == [
        "pde",
        "interior",
        "250",
        f"{residual.absolute:.1e}",
        f"{residual.relative:.1e}",
        "1.0e-06",
        "1.0e-05",
    ]
    assert lines[3].split()[-1] == "-"
    text = "\n".join(lines[4:])
    assert f"rank {answer.certificate.rank} of 310 conditions" in text and "620 functions" in text
    assert "u 1.2e-08 (relative L2)" in text and "1.0e-06 (of the relative error" in text
    assert "held-out: 16 trials" in text and "bandwidth 0.2531" in text and "1.5 s" in text


def test_verdict():
    """Good, bad and unknown are told apart."""
    answer = stand_in.poisson_2d()
    assert [good for good, _ in judge_answer(answer)] == [True, True, None, None]
    there = "relative residual there 1.0e-06 on average, 1.0e-05 at most"
    assert judge_answer(answer)[1][1] == f"Resolved between the points: {there}."
    answer.largest["edge"] = 2e-4  # of another equation
    assert "1.0e-06 on average, 2.0e-04 at most" in judge_answer(answer)[1][1]
    answer.held_out["pde"] = 0.5
    assert judge_answer(answer)[1][0] is False and "5.0e-01" in judge_answer(answer)[1][1]
    answer.held_out["pde"] = math.nan
    assert judge_answer(answer)[1][0] is None
    fields = SimpleNamespace(**{**vars(answer), "worst_held_out": math.nan, "estimate": math.nan, "resolved": True})
    fields.certificate = SimpleNamespace(exact=False, worst=0.1, tolerance=1e-9)
    assert judge_answer(fields)[0] == (False, "NOT EXACT: worst relative residual 1.0e-01, tolerance 1e-09.")


# -- a problem from the start ----------------------------------------------------------------------------------------


def test_report_of_a_solved_problem(tmp_path):
    """u'' = -u with u(0) = 0, u(1) = sin 1, and the integral of u as a third condition: u = sin x."""
    problem = cnf.Problem(
        "x",
        domain={"type": "interval", "from": 0, "to": 1},
        equations=[
            {"on": "interior", "equation": "u_{xx} = -u"},
            {"on": "boundary", "equation": r"u = \sin(x)"},
            {"equation": r"\int_0^1 u \, dx = 1 - \cos(1)", "name": "mass"},
        ],
        points={"count": 20},
        exact={"u": r"\sin(x)"},
        title="Sine",
    )
    answer = problem.solve()
    write_answer(answer, tmp_path)
    with np.load(tmp_path / "solution.npz", allow_pickle=False) as data:
        assert np.abs(data["u"] - np.sin(data["x"])).max() < 1e-8
        assert np.allclose(data["exact_u"], np.sin(data["x"]), rtol=1e-14)
    page = parse((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(list(page.iter("math"))) >= 8
    assert [row[0].text for row in page.iter("tr")][1:4] == ["interior", "boundary", "mass"]
    assert "everywhere" in answer_table(answer)
    assert [label for label, _, _ in styled_points(answer)] == ["interior (20)", "boundary (2)"]


def test_patches_show_their_cells_instead_of_their_points(tmp_path):
    """Whatever the cells: frames of the cells in the picture, points of the boundary only."""
    from matplotlib.figure import Figure
    from PIL import Image

    from cnf.pde.report.field_plots import draw_patches

    answer = cnf.Problem(
        "x y",
        domain=cnf.Box((0, 0), (1, 1)),
        equations={"interior": r"-\Delta u = 1", "boundary": "u = x"},
        solve={"method": "patches", "target": 1e-2},
    ).solve()
    assert [name.split(" (")[0] for name, *_ in styled_points(answer)] == ["boundary"]
    panel = Figure().subplots()
    draw_patches(panel, answer, sample_plane(answer, (0, 1), {}, 11))
    (frames,) = panel.collections
    assert len(frames.get_paths()) == answer.field.basis.cells.count
    with Image.open(plot_field(answer, tmp_path / "field.png")) as picture:
        assert picture.size[0] > 300


def test_patches_of_regions_end_at_their_interface():
    """A rod across which x = 0.4 divides two regions: the line is drawn there, frames are cut off beyond it."""
    from matplotlib.figure import Figure

    from cnf.pde.report.field_plots import draw_patches

    answer = cnf.Problem(
        "x y",
        domain=cnf.Box((0, 0), (1, 1)),
        regions={"left": {"type": "box", "lower": [0, 0], "upper": [0.4, 1]}},
        equations={"interior": r"\nabla\cdot(k\nabla u) = 0", "boundary": "u = y"},
        parameters={"k": {"left": 2, "rest": 1}},
        solve={"method": "patches", "target": 1e-2},
    ).solve()
    (shown,) = [points for name, points, _ in styled_points(answer) if name == f"interfaces ({len(points)})"]
    assert len(shown) and np.allclose(shown[:, 0], 0.4)
    reads = {row.name: row.read for row in list_equations(answer)}
    assert reads["[u] between left and rest"] == "[u] = 0"
    assert reads["[flux] between left and rest"].endswith(
        r" - (2 \mathrm{n_x} \partial_{x} u + 2 \mathrm{n_y} \partial_{y} u) = 0"
    )
    panel = Figure().subplots()
    draw_patches(panel, answer, sample_plane(answer, (0, 1), {}, 11))
    lines = [c for c in panel.collections if type(c).__name__ == "QuadContourSet" and c.get_visible()]
    assert len(lines) == 2 and all(np.abs(c.get_paths()[0].vertices[:, 0] - 0.4).max() < 2e-3 for c in lines)
    frames = [c for c in panel.collections if type(c).__name__ == "PatchCollection"]
    ends = [np.sort(f.get_clip_path()._path.vertices[:, 0])[[0, -1]] for f in frames]
    assert np.allclose(ends, [[0, 0.4], [0.4, 1]], atol=1e-2)


@pytest.mark.parametrize(
    ("domain", "axes", "fixed"),
    [
        (cnf.domains.Difference(cnf.Box((0, 0), (1, 1)), [cnf.domains.Disk((0.3, 0.4), 0.002)]), (0, 1), {}),
        (cnf.domains.Timed(cnf.domains.Disk((0, 0), 1), 0, 1), (0, 1), {2: 0.0}),
        (cnf.domains.Timed(cnf.domains.Disk((0, 0), 1), 0, 1), (0, 2), {1: 0.5}),
    ],
    ids=["tiny hole", "moment", "time"],
)
def test_outside_of_every_pixel(domain, axes, fixed):
    """Asked for in blocks, as if every pixel had been asked for: a hole of two pixels, a disk at its first moment."""
    low, high = np.array(domain.lower)[list(axes)], np.array(domain.upper)[list(axes)]
    extent = (low[0], high[0], low[1], high[1])
    every = pixel_centres(extent, MASK, axes, fixed, domain.dimension)
    assert np.array_equal(find_outside(domain, extent, axes, fixed).ravel(), ~domain.contains(every).numpy())
