"""Unknown numbers of a problem, from measurements: closed forms, regression by hand, and what is refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import cnf
from cnf.errors import ProblemError
from cnf.pde.problems import recovering
from cnf.pde.problems.learning import with_learnable
from cnf.pde.problems.recovered import Recovered
from cnf.pde.problems.recovering import Sensors, learnable
from cnf.pde.report import write_answer
from cnf.pde.report.table import list_facts

LINE = {"type": "interval", "from": 0, "to": 1}
PLACES = np.array([0.15, 0.3, 0.42, 0.6, 0.71, 0.9])
PATCHES = {"method": "patches", "target": 1e-10}
MEASURED = {"file": "d.csv", "equation": "u = d", "name": "sensors"}
ENDS = {"on": "boundary", "equation": "u = 0"}


def measured(folder, values: np.ndarray, places: np.ndarray = PLACES) -> None:
    lines = ["x,d", *(f"{x!r},{d!r}" for x, d in zip(places.tolist(), values.tolist(), strict=True))]
    (folder / "d.csv").write_text("\n".join(lines) + "\n")


def rod(folder, unknowns: dict, equation: str = "-k u'' = 1", **entries: object) -> cnf.Problem:
    equations = entries.pop("equations", [{"on": "interior", "equation": equation}, ENDS, MEASURED])
    settings = {"domain": LINE, "unknowns": unknowns, "solve": PATCHES} | entries
    return cnf.Problem("x", equations=equations, folder=folder, **settings)


@pytest.mark.parametrize("ways", [PATCHES, {"method": "waves"}])
def test_a_linear_equation(tmp_path, ways: dict):
    """-k u'' = 1 between zeros: u = x (1 - x) / (2 k); k = 0.8 is found from 3 to 1e-9, by patches and by waves."""
    measured(tmp_path, PLACES * (1 - PLACES) / 1.6)
    answer = rod(tmp_path, {"k": 3.0}, solve=ways, exact={"u": "x (1 - x) / 1.6", "k": 0.8}).solve()
    found = answer.recovered
    assert found is not None and abs(found.values["k"] - 0.8) < 1e-9 and found.errors["k"] < 2e-9
    assert answer.certificate.exact and answer.errors["u"] < 1e-9
    assert "sensors" not in answer.certificate.residuals and found.misfits[0].largest < 1e-10
    assert answer.problem.unknowns == found.values


def test_two_numbers_of_a_nonlinear_equation(tmp_path):
    """-a u'' + b u^3 = s with u = sin(pi x), a = 0.5 and b = 2: both to 1e-8 from (2, 0), within what is claimed."""
    measured(tmp_path, np.sin(np.pi * PLACES))
    source = {"s": r"0.5 \pi^2 \sin(\pi x) + 2 \sin(\pi x)^3"}
    answer = rod(tmp_path, {"a": 2.0, "b": 0}, "-a u'' + b u^3 = s", parameters=source).solve()
    for name, wanted in (("a", 0.5), ("b", 2.0)):
        off = abs(answer.recovered.values[name] - wanted)
        assert off < 1e-8
        assert off <= 10 * (answer.recovered.deviations[name] + answer.recovered.numerical[name])


def test_noise_is_fitted_and_told(tmp_path):
    """-k u'' = 1 with noisy values: the k of least squares, and its deviation, as the regression of 1 / k has them."""
    x = np.linspace(0.05, 0.95, 40)
    shape = x * (1 - x) / 2
    values = shape / 0.8 + 1e-3 * np.random.default_rng(0).standard_normal(40)
    measured(tmp_path, values, x)
    answer = rod(tmp_path, {"k": 1.0}).solve()
    slope = shape @ values / (shape @ shape)
    deviation = np.linalg.norm(values - slope * shape) / math.sqrt(39) / np.linalg.norm(shape)
    found = answer.recovered
    assert found.values["k"] == pytest.approx(1 / slope, rel=1e-9)
    assert found.deviations["k"] == pytest.approx(deviation / slope**2, rel=1e-6)
    assert found.misfits[0].rms == pytest.approx(np.sqrt(((values - slope * shape) ** 2).mean()), rel=1e-6)
    assert answer.certificate.exact  # the equation; sensors are no part of it
    assert any(line.startswith("fitted, not exact: sensors: 40 measurements") for line in answer.verdict())


def test_other_equations_may_be_fitted_and_files_may_be_exact(tmp_path):
    """u'' = -q with u(0) = 0, u(1) = 1 exact from a file, and a slope of -3 at 1 fitted: u = -4 x^2 + 5 x."""
    measured(tmp_path, np.array([1.0]), np.array([1.0]))
    equations = [
        {"on": "interior", "equation": "u'' = -q"},
        {"on": "x = 0", "equation": "u = 0"},
        MEASURED | {"fitted": False},
        {"on": "x = 1", "equation": "u' = -3", "fitted": True, "name": "slope"},
    ]
    answer = rod(tmp_path, {"q": 1.0}, equations=equations, solve={"method": "waves"}).solve()
    assert answer.recovered.values["q"] == pytest.approx(8, rel=1e-9)
    assert math.isnan(answer.recovered.deviations["q"])
    assert "sensors" in answer.certificate.residuals and "slope" not in answer.certificate.residuals


def test_fluxes_are_further_off_than_values():
    """u = x beside a second field x + 1e-6 x^9: at 1 values differ by 1e-6, slopes by 9e-6, and at 0.1 by nothing."""
    space, powers = cnf.Space("x", "u"), cnf.bases.Polynomial(cnf.Space("x", "u"), 9)
    nodes, places = torch.linspace(0, 1, 10, dtype=torch.float64)[:, None], torch.tensor([[0.1], [1.0]]).double()
    first, second = (
        cnf.ConstrainedField(powers, [space.constraint(f"u = x + {share} x^9", at=nodes, name="all")]).solve()
        for share in ("0", "0.000001")
    )
    sensors = tuple(space.constraint(f"{f} = 3", at=places, name=f) for f in ("u", "u'"))
    asked = SimpleNamespace(problem=SimpleNamespace(sensors=sensors), solution=first, second=second, estimate=4e-7)
    found = recovering.measurement_errors(asked)
    assert found == pytest.approx(np.array([2e-6 / 2**0.5, 2e-6, 18e-6 / 2**0.5, 18e-6]) / 3, rel=1e-3)
    asked.second = None
    assert found.shape == (4,) and recovering.measurement_errors(asked).tolist() == 4 * [4e-7]


def test_an_estimate_of_values_alone_says_so():
    told = Recovered({"k": 1.0}, {"k": 0.1}, {"k": 0.01}, (), 3, 2, of_values=True)
    assert "1.0e-02 by the estimate, which is one of values, not of fluxes" in told.described("k")
    assert "fluxes" not in replace(told, of_values=False).described("k")


@pytest.mark.parametrize("name", ["error", "system", "time"])
def test_unknowns_do_not_take_the_place_of_facts(name: str):
    """-u'' = 1 / k between zeros with u(1/2) = 0.1, so k = 1.25, whatever it is called."""
    equations = [
        {"on": "interior", "equation": rf"-\mathrm{{{name}}} u'' = 1"},
        ENDS,
        {"on": "x = 0.5", "equation": "u = 0.1", "fitted": True},
    ]
    answer = rod(".", {name: 1.0}, equations=equations, exact={"u": r"\frac{x (1 - x)}{2.5}"}).solve()
    facts = list_facts(answer)
    assert facts[f"unknown {name}"].startswith("1.25 (")
    assert (
        facts["error"].endswith("(relative L2)") and facts["system"].startswith("rank") and facts["time"].endswith(" s")
    )


def test_a_scale_of_the_sensors_and_a_number_of_a_region(tmp_path):
    """A sensor that shows c u, and a rod whose right half conducts a: both numbers from values and a known flux."""
    a, c = 4.0, 1.7
    x = np.array([0.2, 0.4, 0.6, 0.8, 0.9])
    measured(tmp_path, c * np.where(x < 0.5, x, 0.5 + (x - 0.5) / a), x)
    equations = [
        {"on": "interior", "equation": r"\nabla\cdot(k \nabla u) = 0"},
        {"on": "x = 0", "equation": "u = 0"},
        {"on": "x = 1", "equation": "k u' = 1"},
        MEASURED | {"equation": "c u = d"},
    ]
    regions = {"right": {"type": "interval", "from": 0.5, "to": 1}}
    answer = rod(
        tmp_path,
        {"a": 1.0, "c": 1.0},
        equations=equations,
        regions=regions,
        parameters={"k": {"right": "a", "rest": 1}},
    ).solve()
    assert answer.recovered.values == pytest.approx({"a": a, "c": c}, rel=1e-9)


@pytest.mark.parametrize("method", ["patches", "waves"])
def test_slopes_by_adjoints_and_by_differences(tmp_path, monkeypatch, method: str):
    """Both ways give the same derivatives of what sensors miss: those of x (1 - x) / (2 k) in closed form."""
    measured(tmp_path, PLACES * (1 - PLACES))
    problem = rod(tmp_path, {"k": 2.0}, "-k u'' = 1", solve={"method": method})
    k = learnable(2.0)
    asked = problem.with_parameters({"k": k}, None, 1e-3)
    sensors = Sensors(
        with_learnable(asked, asked.present._solved(None)).field.train(), asked.sensors, (k,), np.array([2.0])
    )
    size = np.sqrt((PLACES**2 * (1 - PLACES) ** 2).mean())
    wanted = -PLACES * (1 - PLACES) / 8 / size
    off, slopes = sensors.with_slopes(np.array([2.0]))
    monkeypatch.setattr(recovering, "ADJOINTS", 0)
    again, differences = sensors.with_slopes(np.array([2.0]))
    assert np.abs(slopes[:, 0] - wanted).max() < 1e-8 and np.abs(differences[:, 0] - wanted).max() < 1e-6
    assert np.abs(off - again).max() < 1e-10


@pytest.mark.parametrize(
    ("unknowns", "changes", "message"),
    [
        ({"k": 1.0, "q": 1.0}, {}, "the unknown 'q' is given but nothing uses it"),
        ({"k": "fast"}, {}, "an unknown field is one more of the channels"),
        ({"k": 1.0}, {"parameters": {"k": 2}}, "'k' is a parameter as well"),
        ({"k": 1.0}, {"equations": [{"on": "interior", "equation": "-k u'' = 1"}, ENDS]}, "nothing says what k should"),
        ({"k": 1.0}, {"exact": {"q": 1.0}}, "there is no entry 'q' here"),
        ({}, {"equations": [{"on": "interior", "equation": "-u'' = 1", "fitted": True}]}, "no number to fit it with"),
        ({"k": 1.0}, {"equations": [ENDS | {"fitted": "yes"}, MEASURED]}, "expected true or false"),
        ({"k": 1.0}, {"domain": LINE | {"to": "k"}}, "k"),
    ],
)
def test_mistakes_in_writing(tmp_path, unknowns: dict, changes: dict, message: str):
    """Said when the problem is read."""
    measured(tmp_path, PLACES)
    with pytest.raises(ProblemError, match=message):
        problem = rod(tmp_path, unknowns, **changes)
        problem.with_parameters({"k": learnable(1.0)}, None, None)


@pytest.mark.parametrize(
    ("unknowns", "equation", "values", "message"),
    [
        ({"k": 1.0, "q": 1.0}, "-k u'' = q", PLACES * (1 - PLACES), "do not tell k and q apart"),
        ({"k": 1.0}, r"-u'' = \tanh(k)", PLACES * (1 - PLACES), "do not depend on 'k'|no minimum"),
        ({"k": 4.0}, "u'' + k e^u = 0", 0.1 * PLACES * (1 - PLACES), "with the values that they begin with"),
    ],
)
@pytest.mark.filterwarnings("ignore::cnf.errors.ViolationWarning")
def test_what_measurements_do_not_determine(tmp_path, unknowns: dict, equation: str, values, message: str):
    """Numbers that only act together, that want to be infinite, a start without a solution."""
    measured(tmp_path, values)
    problem = rod(tmp_path, unknowns, equation, solve={"method": "patches", "target": 1e-6})
    with pytest.raises(ProblemError, match=message):
        problem.solve()


def test_too_few_measurements(tmp_path):
    """Two unknowns, one sensor."""
    measured(tmp_path, PLACES[:1], PLACES[:1])
    with pytest.raises(ProblemError, match="2 unknowns cannot be found from 1 measurement;"):
        rod(tmp_path, {"k": 1.0, "q": 1.0}, "-k u'' = q").solve()


def test_files_and_what_is_written(tmp_path):
    """A problem file with [unknowns]: mistakes name their line; the value stands in every report of the answer."""
    measured(tmp_path, PLACES * (1 - PLACES) / 1.6)
    text = """coordinates = "x"
[unknowns]
k = 3.0
[domain]
type = "interval"
from = 0
to = 1
[[equations]]
on = "interior"
equation = "-k u'' = 1"
[[equations]]
on = "boundary"
equation = 'u = 0'
[[equations]]
file = "d.csv"
equation = 'u = d'
"""
    (tmp_path / "rod.toml").write_text(text)
    problem = cnf.Problem.read(tmp_path / "rod.toml")
    assert problem.check().unknowns == {"k": 3.0} and [r.name for r in problem.check().fitted] == ["d.csv"]
    answer = problem.solve()
    write_answer(answer, tmp_path / "results", pictures=False)
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())
    assert summary["unknowns"]["values"]["k"]["value"] == pytest.approx(0.8, rel=1e-9)
    assert summary["unknowns"]["fitted"][0]["measurements"] == len(PLACES)
    for name in ("certificate.txt", "report.html"):
        assert re.search(r"k = 0\.[78]\d* \(± .* by the misfit", (tmp_path / "results" / name).read_text())
    (tmp_path / "rod.toml").write_text(text.replace("k = 3.0", "k = 3.0\nq = 1"))
    with pytest.raises(ProblemError, match=r"rod.toml, line 4: the unknown 'q' is given"):
        cnf.Problem.read(tmp_path / "rod.toml")
    loaded = cnf.load(tmp_path / "results" / "solution.pt")
    x = torch.from_numpy(PLACES[:, None])
    assert torch.equal(loaded(x), answer.field(x))


def test_data_are_on_the_page_and_in_the_picture(tmp_path):
    """Noisy values of u are drawn with what the field misses of them; r keeps its name; fitted equations say so."""
    from cnf.pde.report.asked import list_asked
    from cnf.pde.report.field_caption import field_caption
    from cnf.pde.report.measured import list_measured
    from cnf.pde.report.page import report_markup
    from cnf.pde.report.table import answer_table, judge_answer, list_equations, list_fitted

    data = PLACES * (1 - PLACES) / 1.6 + 0.01 * np.cos(40 * PLACES)
    measured(tmp_path, data)
    answer = rod(tmp_path, {"r": 3.0}, "-r u'' = 1").solve()
    (found,) = list_measured(answer)
    with torch.no_grad():
        field = answer(torch.from_numpy(PLACES[:, None]))[:, 0].numpy()
    assert (found.name, found.channel) == ("sensors", 0) and np.array_equal(found.points[:, 0], PLACES)
    assert np.array_equal(found.values, data) and np.allclose(found.misfit, field - data, rtol=0, atol=1e-15)
    assert "field minus measurement" in field_caption(answer)
    (row,) = list_fitted(answer)
    assert row.fitted and row.latex == "u = d" and row.absolute == pytest.approx(np.abs(found.misfit).max())
    assert all(not own.fitted and own.name != "sensors" for own in list_equations(answer))
    page = report_markup(answer)
    assert re.search(r"sensors <span class='mark'>fitted</span></th>", page) and page.count("'mark'>") == 1
    assert "<dt>R</dt>" not in page and not re.search(r"<dt>Unknown", page)
    assert "<h2>Unknowns</h2><dl><dt><math" in page and ">r</mi>" in page.split("<h2>Unknowns")[1].split("</dt>")[0]
    assert "3.0" in list_asked(answer.problem)["Looked for"]  # where it began, not where it ended
    assert "sensors (fitted)" in answer_table(answer)
    assert any(text.startswith("Fitted, not exact: sensors") for _, text in judge_answer(answer))


def test_data_are_drawn_at_their_heights(tmp_path):
    """The curve's panel has the measurements, the panel below field minus measurement, around zero."""
    from matplotlib.figure import Figure

    from cnf.pde.report.field_plots import plot_field
    from cnf.pde.report.measured import list_measured
    from cnf.pde.report.misfit_plots import draw_data, draw_misfit, draw_values
    from cnf.pde.report.planes import Plane

    pytest.importorskip("matplotlib")
    data = PLACES * (1 - PLACES) / 1.6 + 0.01 * np.cos(40 * PLACES)
    measured(tmp_path, data)
    answer = rod(tmp_path, {"r": 3.0}, "-r u'' = 1").solve()
    (own,) = list_measured(answer)
    top, below = Figure().subplots(2)
    draw_data(top, below, [own])
    assert np.array_equal(top.lines[0].get_ydata(), data) and top.lines[0].get_label() == "data: sensors (6)"
    assert np.array_equal(below.lines[-1].get_ydata(), own.misfit)
    assert below.get_ylim()[1] > np.abs(own.misfit).max() and sum(below.get_ylim()) == 0
    assert plot_field(answer, tmp_path / "field.png").stat().st_size > 10_000

    flat = replace(own, points=np.stack([PLACES, PLACES**2], axis=1))
    inside, values = np.ones((20, 20), dtype=bool), np.linspace(0, 1, 400).reshape(1, 20, 20)
    plane = Plane((0, 1), {}, (0.0, 1.0, 0.0, 1.0), inside, None, values, None, None)
    panel = Figure().subplots()
    image = draw_misfit(panel, plane, [flat], 1.0)
    assert np.array_equal(image.get_offsets(), flat.points) and np.array_equal(image.get_array(), own.misfit)
    assert image.norm.vmax == -image.norm.vmin == np.abs(own.misfit).max()
    draw_values(panel, [flat], {"cmap": "viridis", "norm": None, "interpolation": "nearest"})
    assert np.array_equal(panel.collections[-1].get_array(), data)


@pytest.mark.parametrize(
    ("equation", "channels"),
    [("u = d", ["u"]), ("2 u = d", []), ("u_x = d", []), ("u + v = d", []), ("v = d; u_x = d; u = d", ["v", "u"])],
)
def test_only_values_of_channels_are_data_of_a_curve(equation: str, channels: list[str]):
    """Fluxes, sums and multiples have no place on it."""
    from cnf.pde.report.measured import measured_channel

    at = torch.zeros(1, 1, dtype=torch.float64)
    condition = cnf.Space("x", "u v").constraint(equation, at=at, d=torch.ones(1, dtype=torch.float64))
    found = [measured_channel(row) for row in condition.operator.rows]
    assert [name for name in found if name is not None] == channels
