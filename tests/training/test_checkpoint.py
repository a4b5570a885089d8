"""Checkpoints: a run that is stopped and resumed gives the same bits, and a bad file gives one clear line."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import cnf
from cnf import losses
from cnf.errors import FileError, TrainingError
from cnf.operators import identity
from cnf.training import fit
from cnf.training.checkpoint import KIND, VERSION

PLANE = cnf.Space("x y", "u")
UNIT = cnf.Box((0.0, 0.0), (1.0, 1.0))
HALF, WHOLE = 7, 14


def wave(p):
    return torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1])


def field_of(size: int = 30, bandwidth=(0.3, 0.5), base: nn.Module | None = None) -> cnf.ConstrainedField:
    data = PLANE.constraint(identity(), at=UNIT.halton(12, seed=3), equals=wave, name="data")
    return cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, size=size, bandwidth=bandwidth), data, base=base)


def misfit(solution):
    return losses.Regression(UNIT.halton(40, seed=9), wave)(solution)


def noisy(solution):
    """A user's loss with random numbers of its own."""
    return misfit(solution) * (1 + 0.1 * torch.rand(()).item())


LOSSES = {
    "plain": lambda: misfit,
    "random points": lambda: [losses.TotalVariation(UNIT, count=8), losses.Regression(UNIT, wave, batch=6)],
    "torch.rand": lambda: noisy,
}


def state_of(field) -> list:
    return [t.detach().clone() for t in (*field.parameters(), *field.buffers())]


def equal(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("name", LOSSES)
def test_two_halves_are_one_whole(name, optimizer, keep, tmp_path):
    """2n steps equal n steps, a file, a new field and n more, bit for bit: parameters, losses, residuals, best."""
    path = tmp_path / "run.ckpt"
    options = {"optimizer": optimizer, "progress": False, "keep": keep, "seed": 5}
    torch.manual_seed(11)
    whole = field_of()
    expected = fit(whole, LOSSES[name](), steps=WHOLE, **options)
    torch.manual_seed(11)
    fit(field_of(), LOSSES[name](), steps=HALF, checkpoint=path, **options)
    torch.manual_seed(99)  # another process would be in another random state
    resumed = field_of(bandwidth=(0.9, 0.9))
    found = fit(resumed, LOSSES[name](), steps=WHOLE, checkpoint=path, resume=True, **options)
    assert found.loss == expected.loss
    assert found.terms == expected.terms
    assert found.residual == expected.residual
    assert found.step == expected.step
    assert (found.best_step, found.best_loss, found.final_loss) == (
        expected.best_step,
        expected.best_loss,
        expected.final_loss,
    )
    assert equal(state_of(resumed), state_of(whole))
    assert sorted(found.seconds) == found.seconds
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError])
def test_runs_that_were_cut_short_go_on(end, tmp_path):
    """Ctrl-C saves at once; a crash leaves the file of the last tenth step. Both lead to the same end."""
    path = tmp_path / "run.ckpt"
    whole = field_of()
    expected = fit(whole, LOSSES["random points"](), steps=WHOLE, progress=False)

    def stop(step, solution, history):
        if step == 9:
            raise end("now")

    cut = {"checkpoint": path, "checkpoint_every": 4, "progress": False}
    try:
        fit(field_of(), LOSSES["random points"](), steps=WHOLE, callbacks=stop, **cut)
    except RuntimeError:
        assert end is RuntimeError
    saved = torch.load(path, weights_only=True)["step"]
    assert saved == (9 if end is KeyboardInterrupt else 8)
    resumed = field_of()
    found = fit(resumed, LOSSES["random points"](), steps=WHOLE, resume=True, **cut)
    assert found.loss == expected.loss
    assert equal(state_of(resumed), state_of(whole))


def test_interrupt_inside_a_line_search(tmp_path):
    """Half-way through an update the optimiser has no state worth saving: the file stays, the field goes back."""
    path = tmp_path / "run.ckpt"
    tried = []

    def loss(solution):
        if tried:  # the next evaluation after the start of step 2
            tried.append(solution.basis.log_bandwidth.detach().clone())
            raise KeyboardInterrupt
        return misfit(solution)

    field = field_of()
    options = {"optimizer": "lbfgs", "checkpoint": path, "checkpoint_every": 1, "progress": False, "keep": "last"}
    history = fit(field, loss, steps=WHOLE, callbacks=lambda k, s, h: tried.append(k) if k == 2 else None, **options)
    assert (history.stopped, len(history)) == ("interrupted", 3)
    saved = torch.load(path, weights_only=True)
    assert saved["step"] == 2  # the start of the step that was interrupted
    assert torch.equal(saved["now"]["parameters"][0], field.basis.log_bandwidth)
    assert not torch.equal(tried[-1], field.basis.log_bandwidth)
    resumed, whole = field_of(), field_of()
    fit(resumed, misfit, steps=5, resume=True, **options)
    fit(whole, misfit, steps=5, optimizer="lbfgs", progress=False, keep="last")
    assert equal(state_of(resumed), state_of(whole))


def test_early_stops_can_be_overruled(tmp_path):
    """A run that met its target is resumed without one, as if it had never stopped."""
    path = tmp_path / "run.ckpt"
    whole = field_of()
    expected = fit(whole, misfit, steps=WHOLE, progress=False)
    first = fit(field_of(), misfit, steps=WHOLE, target=expected.loss[5], checkpoint=path, progress=False)
    assert (first.stopped, len(first)) == ("target", 6)
    resumed = field_of()
    found = fit(resumed, misfit, steps=WHOLE, checkpoint=path, resume=True, progress=False)
    assert (found.loss, found.stopped) == (expected.loss, "steps")
    assert equal(state_of(resumed), state_of(whole))


def test_patience_remembers(tmp_path):
    """Steps waited before the break count: patience 6 after 4 + 3 steps of a constant loss."""
    path = tmp_path / "run.ckpt"
    flat = lambda s: 0 * s.basis.log_bandwidth.sum() + 3.0  # noqa: E731
    fit(field_of(), flat, steps=4, patience=6, checkpoint=path, progress=False)
    history = fit(field_of(), flat, steps=50, patience=6, checkpoint=path, resume=True, progress=False)
    assert (len(history), history.stopped) == (7, "patience")


class Counting(nn.Module):
    """A network that keeps a running average of its values, without using it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.Linear(2, 1).double()
        self.register_buffer("average", torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        values = self.layer(x)
        with torch.no_grad():
            self.average += 0.1 * (values.mean() - self.average)
        return values


def test_buffers_are_part_of_the_state(tmp_path):
    """A base network with a running average: it resumes with the rest."""
    path = tmp_path / "run.ckpt"
    whole, first, resumed = (field_of(base=Counting()) for _ in range(3))
    fit(whole, misfit, steps=6, progress=False)
    fit(first, misfit, steps=3, checkpoint=path, progress=False)
    fit(resumed, misfit, steps=6, checkpoint=path, resume=True, progress=False)
    assert float(whole.base.average.abs().max()) > 0
    assert equal(state_of(resumed), state_of(whole))


def test_lr_given_on_resuming_wins(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(field_of(), misfit, steps=2, lr=0.1, checkpoint=path, progress=False)
    field = field_of()
    fit(field, misfit, steps=3, lr=1e-12, checkpoint=path, resume=True, progress=False, keep="last")
    now = torch.load(path, weights_only=True)["now"]["parameters"][0]
    two = field_of()
    fit(two, misfit, steps=2, lr=0.1, progress=False, keep="last")
    assert torch.allclose(now, next(two.parameters()), rtol=0, atol=1e-10)
    assert not torch.equal(now, next(two.parameters()))


def test_a_finished_run_is_not_trained_again(tmp_path, capsys):
    path = tmp_path / "run.ckpt"
    first = field_of()
    fit(first, misfit, steps=5, checkpoint=path, progress=False)
    again = field_of()
    history = fit(again, misfit, steps=4, checkpoint=path, resume=True)
    assert len(history) == 5
    assert equal(state_of(first), state_of(again))
    assert "has 5 steps already" in capsys.readouterr().err


def test_messages(tmp_path, capsys):
    path = tmp_path / "run.ckpt"
    fit(field_of(), misfit, steps=2, checkpoint=path, resume=True)
    assert "there is no checkpoint" in capsys.readouterr().err
    fit(field_of(), misfit, steps=4, checkpoint=path, resume=True)
    assert "going on from step 2" in capsys.readouterr().err
    fit(field_of(), misfit, steps=2, checkpoint=path)
    assert "will be overwritten" in capsys.readouterr().err


def damage(path, change):
    contents = torch.load(path, weights_only=True)
    change(contents)
    torch.save(contents, path)


BAD_FILES = {
    "cut in half": (lambda p: os.truncate(p, os.path.getsize(p) // 2), "damaged"),
    "empty": (lambda p: p.write_bytes(b""), "damaged"),
    "text": (lambda p: p.write_text("step 3, loss 0.1"), "damaged or not a training checkpoint"),
    "flipped bytes": (lambda p: p.write_bytes(p.read_bytes()[:200] + b"\xff" * 300 + p.read_bytes()[500:]), "damaged"),
    "another torch file": (lambda p: torch.save({"weights": torch.zeros(3)}, p), "not a training checkpoint"),
    "a pickled object": (lambda p: torch.save(nn.Linear(2, 2), p), "damaged or not a training checkpoint"),
    "newer": (
        lambda p: damage(p, lambda c: c.update(version=VERSION + 1)),
        f"format version {VERSION + 1}.*update cnf",
    ),
    "no version": (lambda p: damage(p, lambda c: c.pop("version")), "damaged"),
    "parts missing": (lambda p: damage(p, lambda c: c.pop("history")), "damaged"),
    "bad history": (lambda p: damage(p, lambda c: c["history"].update(loss="low")), "damaged"),
    "bad random state": (lambda p: damage(p, lambda c: c.update(random_state=torch.zeros(3))), "damaged"),
    "short random state": (
        lambda p: damage(p, lambda c: c.update(random_state=torch.zeros(3, dtype=torch.uint8))),
        "does not fit",
    ),
    "bad optimizer": (lambda p: damage(p, lambda c: c.update(optimizer={"state": {}})), "does not fit"),
    "parameters missing": (lambda p: damage(p, lambda c: c["now"].update(parameters=[])), "damaged"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_give_one_line(name, tmp_path):
    change, message = BAD_FILES[name]
    path = tmp_path / "run.ckpt"
    fit(field_of(), misfit, steps=2, checkpoint=path, progress=False)
    change(path)
    field = field_of()
    before, random_state = state_of(field), torch.get_rng_state()
    with pytest.raises(FileError, match=message) as caught:
        fit(field, misfit, steps=4, checkpoint=path, resume=True, progress=False)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert equal(state_of(field), before)
    assert torch.equal(torch.get_rng_state(), random_state)


def test_other_fields_and_optimizers_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(field_of(), misfit, steps=2, checkpoint=path, progress=False)
    resume = {"steps": 4, "checkpoint": path, "resume": True, "progress": False}
    with pytest.raises(FileError, match=r"'basis.log_bandwidth' has shape \(2,\) there, \(\) here"):
        fit(field_of(bandwidth=0.3), misfit, **resume)
    with pytest.raises(FileError, match=r"buffer 'basis.directions' has shape \(30, 2\) there, \(20, 2\) here"):
        fit(field_of(size=20), misfit, **resume)
    with pytest.raises(FileError, match="another field: parameter 'base"):
        fit(field_of(base=nn.Linear(2, 1)), misfit, **resume)
    with pytest.raises(FileError, match="written by the optimizer Adam, not LBFGS"):
        fit(field_of(), misfit, optimizer="lbfgs", **resume)


def test_paths_that_cannot_be_written_fail_before_training(tmp_path):
    called = []

    def loss(solution):
        called.append(1)
        return misfit(solution)

    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file" / "run.ckpt", tmp_path / "folder", "", 3):
        with pytest.raises(FileError):
            fit(field_of(), loss, steps=2, checkpoint=path, progress=False)
    assert not called
    assert (tmp_path / "file").read_text() == "kept"


def test_optimizers_with_objects_in_their_state_are_refused_early(tmp_path):
    def make(parameters):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        optimizer.param_groups[0]["schedule"] = object()
        return optimizer

    with pytest.raises(TrainingError, match="keeps a object in its state"):
        fit(field_of(), misfit, steps=2, optimizer=make, checkpoint=tmp_path / "run.ckpt", progress=False)


def test_the_file_holds_plain_things_only(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(field_of(), misfit, steps=3, checkpoint=path, optimizer="lbfgs", progress=False)
    contents = torch.load(path, weights_only=True)
    assert (contents["kind"], contents["version"], contents["step"]) == (KIND, VERSION, 3)
    assert contents["names"] == ["basis.log_bandwidth"]
