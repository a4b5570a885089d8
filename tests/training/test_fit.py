"""fit: the conditions hold at every step, it stops when and how it should, and says what happened."""

from __future__ import annotations

import csv
import io
import math
import sys
import warnings

import pytest
import torch
from torch import nn

import cnf
from cnf import losses
from cnf.errors import CnfError, FileError, TrainingError, ViolationWarning
from cnf.operators import identity, laplacian
from cnf.training import History, fit, progress

PLANE = cnf.Space("x y", "u")
UNIT = cnf.Box((0.0, 0.0), (1.0, 1.0))


def wave(p):
    return torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1])


def field_of(bandwidth: float = 0.25, kernel: bool = False, **options) -> cnf.ConstrainedField:
    """Twelve values of a smooth function, interpolated."""
    data = PLANE.constraint(identity(), at=UNIT.halton(12, seed=3), equals=wave, name="data")
    if kernel:
        basis = cnf.bases.Kernel(PLANE, [data], cnf.kernels.Gaussian(bandwidth))
    else:
        basis = cnf.bases.RandomFourier(PLANE, size=30, bandwidth=bandwidth)
    return cnf.ConstrainedField(basis, data, **options)


def width_of(field) -> float:
    (parameter,) = field.parameters()
    return parameter.exp().item()


def misfit(solution):
    return losses.Regression(UNIT.halton(50, seed=9), wave)(solution)


# -- training --------------------------------------------------------------------------------------------------------


def test_conditions_hold_at_each_of_200_steps():
    """The promise: a kernel field with values and a Laplacian, residual below 1e-10 from first to last step."""
    edge = torch.stack([torch.linspace(0, 1, 6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)], dim=1)
    values = PLANE.constraint(identity(), at=edge, equals=wave, name="edge")
    inside = cnf.Box((0, 0.1), (1, 1)).halton(14)
    poisson = PLANE.constraint(laplacian(), at=inside, equals=lambda p: -13 * wave(p), name="poisson")
    basis = cnf.bases.Kernel(PLANE, [values, poisson], cnf.kernels.Gaussian(0.15))
    field = cnf.ConstrainedField(basis, [values, poisson])
    history = fit(field, [misfit, losses.Condition(1e-4)], steps=200, lr=1e-2, progress=False)
    assert len(history) == 200
    assert history.stopped == "steps"
    assert max(history.residual) <= 1e-10
    assert history.best_loss < 0.9 * history.loss[0]
    assert set(history.terms) == {"misfit", "condition"}
    assert history.terms["misfit"][7] + history.terms["condition"][7] == pytest.approx(history.loss[7], rel=1e-14)
    assert sorted(history.seconds) == history.seconds
    known = [k for k, c in enumerate(history.condition) if not math.isnan(c)]
    assert known == list(range(0, 200, 10))
    assert history.terms["condition"][0] == pytest.approx(1e-4 * math.log(history.condition[0]), rel=1e-9)


def test_same_as_a_hand_written_loop():
    """Twelve steps of Adam written out give the same bits."""
    field = field_of()
    fit(field, misfit, steps=12, lr=0.02, progress=False, keep="last")
    other = field_of()
    optimizer = torch.optim.Adam(other.parameters(), lr=0.02)
    for _ in range(12):
        optimizer.zero_grad()
        misfit(other.solve()).backward()
        optimizer.step()
    assert width_of(field) == width_of(other)


def test_best_and_last():
    """With a step far too large the loss jumps about; 'best' keeps the lowest that was seen, the final one included."""
    field = field_of(0.6)
    history = fit(field, misfit, steps=8, lr=0.8, progress=False)
    seen = [*history.loss, history.final_loss]
    assert history.best_loss == min(seen)
    assert seen[history.best_step] == min(seen)
    assert misfit(field.solve()).item() == history.best_loss
    last = field_of(0.6)
    history = fit(last, misfit, steps=8, lr=0.8, progress=False, keep="last")
    assert misfit(last.solve()).item() == history.final_loss
    assert history.final_loss > history.best_loss


def test_lbfgs_reaches_the_minimum():
    """The best bandwidth found on a fine grid is found by L-BFGS in a few steps."""
    field = field_of(0.3)
    history = fit(field, lambda s: misfit(s).log(), steps=25, optimizer="lbfgs", progress=False)
    with torch.no_grad():
        best = min(math.log(misfit(field_of(h).solve()).item()) for h in torch.linspace(0.2, 1.2, 80).tolist())
    assert history.best_loss <= best + 1e-3
    assert history.stopped in ("steps", "converged")
    assert all(b <= a for a, b in zip(history.loss, history.loss[1:], strict=False))


def test_lbfgs_steps_back_from_where_there_is_no_field():
    """The loss falls towards a bandwidth where its own terms fail; the line search stays on this side."""

    def cliff(solution):
        width = solution.basis.log_bandwidth
        if width.item() > 0.5:
            raise TrainingError("beyond the cliff")
        return -width

    field = field_of(1.0)
    history = fit(field, cliff, steps=6, optimizer="lbfgs", progress=False)
    assert history.best_loss < 0
    assert field.basis.log_bandwidth.item() <= 0.5
    assert max(history.residual) <= field.tolerance


def test_any_optimizer_and_chosen_parameters():
    """SGD on the base network only: theta - lr * gradient, and the bandwidth stays."""
    torch.manual_seed(1)
    base = nn.Linear(2, 1, dtype=torch.float64)
    field = field_of(base=base)
    before = base.weight.detach().clone()
    misfit(field.solve()).backward()
    expected = before - 0.5 * base.weight.grad
    field.basis.log_bandwidth.grad = torch.tensor(7.0, dtype=torch.float64)
    width = width_of_basis = field.basis.bandwidth.item()
    fit(
        field,
        misfit,
        steps=1,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.5),
        parameters=base.parameters(),
        progress=False,
        keep="last",
    )
    assert torch.allclose(base.weight, expected, rtol=1e-12)
    assert field.basis.bandwidth.item() == width_of_basis == width
    assert field.basis.log_bandwidth.grad.item() == 7.0  # what is not trained keeps its gradient


def test_clip_bounds_the_gradient():
    """With SGD of rate 1 and clip 1e-3 the parameter moves by exactly that."""
    field = field_of()
    before = field.basis.log_bandwidth.item()
    sgd = lambda p: torch.optim.SGD(p, lr=1.0)  # noqa: E731
    fit(field, misfit, steps=1, optimizer=sgd, clip=1e-3, progress=False, keep="last")
    assert abs(field.basis.log_bandwidth.item() - before) == pytest.approx(1e-3, rel=1e-9)


def test_random_points_depend_on_seed_and_step_only():
    term = losses.TotalVariation(UNIT, count=16)
    first, second, third = (fit(field_of(), term, steps=4, seed=s, progress=False).loss for s in (0, 0, 1))
    assert first == second
    assert first[0] != third[0]
    assert len(set(first)) == 4


def test_learnable_coefficient_is_found():
    """Inverse problem: in c u = g with g = 2 w and data u = w elsewhere, c must become 2."""
    c = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    points = UNIT.halton(12, seed=3)
    scaled = PLANE.constraint(r"c\,u", at=points, equals=lambda p: 2 * wave(p), c=c, name="scaled")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 40, 0.7), scaled)
    data = losses.Regression(points, wave)
    history = fit(field, data, steps=40, optimizer="lbfgs", parameters=[c], target=1e-16, progress=False)
    assert c.item() == pytest.approx(2.0, rel=1e-6)
    assert max(history.residual) <= 1e-10


# -- stopping --------------------------------------------------------------------------------------------------------


def test_patience_counts_steps_without_improvement():
    """A loss of constant value never improves after the first step: 1 + patience steps are made."""
    flat = lambda s: 0 * s.basis.log_bandwidth + 3.0  # noqa: E731
    history = fit(field_of(), flat, steps=100, patience=5, progress=False)
    assert (len(history), history.stopped) == (6, "patience")
    falling = lambda s: s.basis.log_bandwidth  # noqa: E731
    assert len(fit(field_of(), falling, steps=30, patience=5, progress=False)) == 30


def test_target_and_callback_stop_before_the_update():
    field = field_of()
    target = misfit(field.solve()).item()
    width = width_of(field)
    history = fit(field, misfit, steps=50, target=target, progress=False, keep="last")
    assert (len(history), history.stopped) == (1, "target")
    assert width_of(field) == width
    seen = []

    def watch(step, solution, history):
        assert len(history) == step + 1
        seen.append((step, solution.certificate.exact))
        return step == 3

    history = fit(field, misfit, steps=50, callbacks=[watch], progress=False)
    assert seen == [(k, True) for k in range(4)]
    assert (len(history), history.stopped) == (4, "callback")


@pytest.mark.parametrize("keep", ["best", "last"])
def test_interrupt_keeps_what_was_reached(keep, capsys):
    """Ctrl-C in step 5 (here from a callback): no exception, and the field is that of an evaluated step."""
    field = field_of(0.6)

    def interrupt(step, solution, history):
        if step == 5:
            raise KeyboardInterrupt

    history = fit(field, misfit, steps=50, lr=0.4, callbacks=interrupt, keep=keep)
    assert (len(history), history.stopped) == (6, "interrupted")
    expected = min(history.loss) if keep == "best" else history.loss[5]
    assert misfit(field.solve()).item() == expected
    assert min(history.loss) < history.loss[5]
    assert "interrupted in step 5" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_stops_with_the_best_restored():
    field = field_of()

    def breaks(solution):
        return misfit(solution) * (math.nan if breaks.calls.append(0) or len(breaks.calls) > 4 else 1)

    breaks.calls = []
    with pytest.raises(TrainingError, match=r"step 4: the loss 'breaks' is nan.*best parameters so far, of step 3"):
        fit(field, breaks, steps=50, progress=False)
    found = misfit(field.solve()).item()
    other = field_of()
    assert found == fit(other, misfit, steps=4, keep="last", progress=False).loss[3]


def test_a_gradient_that_is_not_finite_is_explained():
    bad = lambda s: (s.weights[0, 0] - s.weights[0, 0]).abs().sqrt()  # noqa: E731
    with pytest.raises(TrainingError, match=r"step 0: the gradient is NaN.*clamp_min"):
        fit(field_of(), bad, steps=5, progress=False)


def test_other_errors_carry_the_step():
    def wrong(solution):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError) as caught:
        fit(field_of(), wrong, steps=5, progress=False)
    assert any("step 0 of cnf.fit" in note for note in caught.value.__notes__)


# -- the field afterwards --------------------------------------------------------------------------------------------


def test_modes_are_restored_module_by_module():
    base = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.0), nn.Linear(4, 1)).double()
    field = field_of(base=base)
    field.eval()
    base[0].train()
    modes = [m.training for m in field.modules()]
    seen = []
    fit(
        field,
        misfit,
        steps=2,
        progress=False,
        callbacks=lambda s, f, h: seen.append(all(m.training for m in field.modules())),
    )
    assert [m.training for m in field.modules()] == modes
    assert seen == [True, True]
    assert all(p.grad is None for p in field.parameters())


def test_violations_warn_once_during_and_once_after():
    """Two conditions that contradict each other: every solve would warn; the run does it once, and once at the end."""
    points = torch.cat([UNIT.halton(4), UNIT.halton(4)[:1]])
    data = PLANE.constraint(identity(), at=points, equals=torch.tensor([1.0, 2, 3, 4, 5]), name="twice")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 12, 0.5), data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(field, losses.Condition(), steps=6, progress=False)
    texts = [str(w.message) for w in caught if issubclass(w.category, ViolationWarning)]
    assert len(texts) == 2
    assert "'twice' is missed" in texts[0]
    assert texts[1].startswith("after training, the constraints are missed by")


def test_a_filter_that_asks_for_errors_is_obeyed():
    points = torch.cat([UNIT.halton(4), UNIT.halton(4)[:1]])
    data = PLANE.constraint(identity(), at=points, equals=torch.tensor([1.0, 2, 3, 4, 5]), name="twice")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 12, 0.5), data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ViolationWarning)
        with pytest.raises(ViolationWarning):
            fit(field, losses.Condition(), steps=6, progress=False)


def test_best_is_a_field_that_meets_its_conditions():
    """The loss asks for an ever wider kernel until the system breaks down; the widest one that still holds is kept."""
    field = field_of(0.3, kernel=True, tolerance=1e-12)  # well above what steps round, whatever the processor
    wider = lambda s: -s.basis.kernel.log_length  # noqa: E731
    with pytest.warns(ViolationWarning, match="kept is the lowest that met them"):
        history = fit(field, wider, steps=60, lr=0.1, progress=False)
    assert max(history.residual) > field.tolerance
    assert history.best_exact
    assert history.best_residual <= field.tolerance
    assert field.solve().certificate.exact
    holding = [loss for loss, r in zip(history.loss, history.residual, strict=True) if r <= field.tolerance]
    assert history.best_loss == min(holding)


# -- mistakes --------------------------------------------------------------------------------------------------------

BAD = {
    "steps": ({"steps": 0}, "steps is a whole number of at least 1"),
    "lr": ({"lr": -1.0}, "lr is a positive number"),
    "optimizer": ({"optimizer": "addam"}, "Did you mean 'adam'"),
    "made optimizer": ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, "not an optimizer"),
    "not an optimizer": ({"optimizer": lambda p: 3}, "returned a int"),
    "keep": ({"keep": "all"}, "'best' or 'last'"),
    "resume": ({"resume": True}, "checkpoint="),
    "patience": ({"patience": 0}, "patience is a whole number"),
    "clip": ({"clip": 0.0}, "clip is a positive number"),
    "clip and lbfgs": ({"clip": 1.0, "optimizer": "lbfgs"}, "line search"),
    "seed": ({"seed": "a"}, "seed is a whole number"),
    "target": ({"target": "low"}, "target is a number"),
    "parameters": ({"parameters": []}, "requires_grad=True"),
    "no losses": ({"loss": []}, "empty"),
    "class": ({"loss": losses.Condition}, "the class Condition"),
    "not callable": ({"loss": 3.0}, "got a float"),
    "vector": ({"loss": lambda s: s.weights}, r"tensor of shape \(30, 1\)"),
    "number": ({"loss": lambda s: 1.0}, "returned a float"),
    "detached": ({"loss": lambda s: s.weights.detach().sum()}, "does not depend on anything that is trained"),
    "elsewhere": (
        {"loss": lambda s: torch.ones((), requires_grad=True) * 2},
        "does not depend on anything that is trained",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name):
    options, message = BAD[name]
    with pytest.raises(CnfError, match=message):
        fit(field_of(), **{"loss": misfit, "steps": 2, "progress": False, **options})


def test_nothing_to_train():
    data = PLANE.constraint(identity(), at=UNIT.halton(3), equals=1.0, name="data")
    field = cnf.ConstrainedField(cnf.bases.Polynomial(PLANE, 1), data)
    with pytest.raises(TrainingError, match=r"nothing to train.*Polynomial has no learnable parameter"):
        fit(field, misfit)
    with pytest.raises(TrainingError, match="ConstrainedField"):
        fit(wave, misfit)
    with pytest.raises(TrainingError, match="nothing to train in this Tanh"):
        fit(nn.Tanh(), misfit)


def test_terms_are_named():
    """By key, by name, by function; a name that comes twice is numbered."""
    terms = [losses.Condition(1e-6), losses.Condition(1e-6, name="again"), misfit, misfit]
    history = fit(field_of(), terms, steps=1, progress=False)
    assert list(history.terms) == ["condition", "again", "misfit", "misfit 2"]
    history = fit(field_of(), {"a": misfit, "b": losses.Condition()}, steps=1, progress=False)
    assert list(history.terms) == ["a", "b"]


# -- what is shown and written ---------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_are_few(monkeypatch, capsys):
    monkeypatch.setattr(progress, "QUIET", 0.0)
    fit(field_of(), misfit, steps=57)
    lines = capsys.readouterr().err.splitlines()
    assert 5 <= len(lines) <= 11
    assert lines[-1].startswith("cnf.fit: step 57/57  loss ")
    assert all("residual" in line for line in lines)


def test_short_runs_and_silent_runs_print_nothing(capsys):
    fit(field_of(), misfit, steps=3)
    fit(field_of(), misfit, steps=3, progress=False)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    fit(field_of(), misfit, steps=4)
    shown = screen.getvalue()
    assert "4/4" in shown
    assert all(word in shown for word in ("loss", "residual", "condition"))


def test_terminal_without_rich(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    fit(field_of(), misfit, steps=4)
    assert "cnf.fit: step 4/4" in screen.getvalue()


def test_history_as_csv_and_text(tmp_path):
    history = fit(field_of(), {"fit": misfit, "tv": losses.TotalVariation(UNIT, 8)}, steps=5, progress=False)
    path = tmp_path / "run.csv"
    history.to_csv(path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["step", "loss", "loss.fit", "loss.tv", "residual", "condition", "seconds"]
    assert [float(r["loss"]) for r in rows] == history.loss
    assert [float(r["loss.tv"]) for r in rows] == history.terms["tv"]
    assert [p.name for p in tmp_path.iterdir()] == ["run.csv"]
    assert repr(history).startswith("History(5 steps, loss ")
    assert repr(History()) == "History(no steps)"
    with pytest.raises(FileError, match="cannot write"):
        history.to_csv(path / "run.csv")  # a file where a folder is needed


def test_history_survives_its_own_dictionary():
    history = fit(field_of(), misfit, steps=3, progress=False)
    again = History.from_state_dict(history.state_dict())
    assert repr(again.state_dict()) == repr(history.state_dict())  # NaN compares by its text
    damaged = {**history.state_dict(), "loss": [1.0]}
    for state in (damaged, {}, [], {**history.state_dict(), "terms": 3}):
        with pytest.raises(FileError):
            History.from_state_dict(state)


def test_a_gradient_that_is_zero_from_the_start_is_announced():
    """Zero right-hand sides have zero weights, which no parameter of the basis can change."""
    space = cnf.Space("x", "u")
    ends = space.constraint("u = 0", at=[[0.0], [1.0]], name="ends")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 10, 0.5), ends)
    x = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    with pytest.warns(cnf.errors.TrainingWarning, match="base network"):
        cnf.fit(field, losses.Regression(x, torch.sin(3 * x)), steps=2, progress=False)
