"""Fitted materials: never negative, exact where promised, and the same after a file; damaged files are refused."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf.errors import CnfError, FileError
from cnf.materials.fitting.fit import Fit, Settings, fit_material
from cnf.materials.fitting.fitted import FittedMaterial, as_material, is_shareable, load_model, save_model
from cnf.materials.fitting.folders import Source, check_conditions, load_fit, save_fit
from cnf.materials.fitting.methods import METHODS
from cnf.materials.reflectance import GGX, Lambert, decode, encode
from cnf.materials.reflectance.material import CHUNK

GOLD = GGX("gold", 0.2)
EIGHT = tuple(name for name in METHODS if not name.endswith("-paper"))  # the others differ in their rate alone
SOFT = tuple(name for name in EIGHT if not METHODS[name].constrained)
TINY = Settings(samples=2000, epochs=1, batch=200, conditions=20, parameters=3000, log_every=5)
ANGLES = torch.rand(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.tensor(
    [math.pi / 2, math.pi / 2, 2 * math.pi], dtype=torch.float64
)


@cache
def fitted(method: str) -> Fit:
    torch.set_num_threads(1)
    return fit_material(GOLD, method, TINY)


class Constant(nn.Module):
    """log(1 + f) = level, -level, 1000 for the three channels."""

    def __init__(self, level: float):
        super().__init__()
        self.level = nn.Parameter(torch.tensor([level, -level, 1000.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.level.expand(len(x), 3)


def test_reflectance_is_the_decoded_logarithm():
    """expm1 of 0.7 where valid, 0 below the horizon; a negative logarithm gives 0, a huge one stays finite."""
    material = FittedMaterial("flat", "Flat", Constant(0.7))
    values = material(ANGLES)
    light, eye = GOLD.valid(ANGLES), Lambert((0.5, 0.5, 0.5)).valid(ANGLES)
    assert torch.equal(light, eye) and 0 < int(light.sum()) < 500
    assert (values[light, 0] - math.expm1(0.7)).abs().max() < 1e-7
    assert float(values[:, 1].abs().max()) == 0.0
    assert float(values[~light].abs().max()) == 0.0
    assert bool(torch.isfinite(values).all()) and values.dtype == torch.float64


@pytest.mark.parametrize("method", EIGHT)
def test_never_negative(method: str):
    """Though the model itself is below 0 at some directions, for at least those methods where this was seen."""
    material = as_material(fitted(method))
    assert float(material(ANGLES).min()) >= 0.0
    assert material(ANGLES).shape == (500, 3) and material.label == f"{METHODS[method].title} of GGX gold 0.2"
    inside = GOLD.valid(ANGLES)
    expected = torch.expm1(material.logarithm(ANGLES)[inside].clamp_min(0))
    assert (material(ANGLES)[inside] - expected).abs().max() <= 1e-6 * expected.max()


def test_some_model_is_negative_somewhere():
    """So that the test above is about something."""
    assert min(float(as_material(fitted(m)).logarithm(ANGLES).min()) for m in EIGHT) < 0


@pytest.mark.parametrize("method", ["kernel-siren", "kernel-ffn"])
def test_the_measurements_are_exact(method: str):
    """Reflectance at the 20 conditions: to 1e-10 of the material's own by default and in float64, to 1e-4 in float32.

    By default that holds for one direction, for a few, and among thousands, on any number of threads; with light and
    eye swapped the numbers are those of the model in float64 too.
    """
    fit = fitted(method)
    angles = decode(fit.conditions.points)
    wanted, single = GOLD(angles), as_material(fit, torch.float32)
    assert 1e-9 < (single(angles) / wanted - 1).abs().max() <= 1e-4  # so that the rest is about something
    for material in (as_material(fit), as_material(fit, torch.float64)):
        many = torch.cat([ANGLES.repeat(9, 1), angles, ANGLES])
        found = [material(angles), material(many)[4500:4520], torch.cat([material(row[None]) for row in angles])]
        torch.set_num_threads(2)
        found.append(material(many)[4500:4520])
        torch.set_num_threads(1)
        for values in found:
            assert (values / wanted - 1).abs().max() <= 1e-10
    swapped = angles + torch.tensor([0.0, 0.0, math.pi], dtype=torch.float64)
    assert (as_material(fit)(swapped) - as_material(fit, torch.float64)(swapped)).abs().max() < 1e-9


def test_which_queries_are_exact():
    """Next to a condition, even in float32, to the last digit of float64; elsewhere as float32 has it."""
    fit = fitted("kernel-siren")
    mixed, double, single = (as_material(fit, p) for p in (None, torch.float64, torch.float32))
    rounded = decode(fit.conditions.points).float()
    assert (mixed.logarithm(rounded) == double.logarithm(rounded.double()).float()).all()
    away = decode(fit.conditions.points) + 1e-3
    assert torch.equal(mixed.logarithm(away), single.logarithm(away))


SHARP = GGX("chrome", 0.02)


@pytest.mark.parametrize("method", ["kernel-grid", "kernel-siren", "kernel-ffn"])
def test_trained_in_single_precision(method: str, tmp_path: Path):
    """A sharp lobe, parameters that are numbers of float32: certificate, model and queries meet 20 conditions to 1e-10.

    So they do when read from a folder, also from one whose model was kept in float32, which by itself misses them.
    """
    fit = fit_material(SHARP, method, replace(TINY, precision="float32"))
    assert all(torch.equal(p, p.float().double()) for p in fit.model.parameters())
    coarse = copy.deepcopy(fit.model).float()
    assert isinstance(coarse, cnf.ConstrainedField) and coarse.solve().certificate.worst > 1e-9
    found = [fit]
    for name, kept in (("now", fit), ("before", replace(fit, model=coarse))):
        save_fit(kept, tmp_path / name, Source("ggx:chrome:0.02"), {})
        found.append(load_fit(tmp_path / name).fit)
    for made in found:
        assert made.certificate is not None and made.certificate.exact
        assert made.certificate.worst <= 1e-10 and check_conditions(made).worst <= 1e-10
        with torch.no_grad():
            assert (made.model(fit.conditions.points) - fit.conditions.logs).abs().max() <= 1e-9


@pytest.mark.parametrize("method", ["kernel-grid", "kernel-siren", "kernel-ffn", "ffn"])
def test_values_do_not_depend_on_company_or_threads(method: str):
    """Bit by bit the same on one thread and on two; alone and in a short query, to the rounding of float32."""
    material = as_material(fitted(method))
    many = torch.cat([ANGLES.repeat(40, 1), decode(fitted(method).conditions.points), ANGLES])
    found = material.logarithm(many)
    torch.set_num_threads(2)
    assert torch.equal(material.logarithm(many), found)
    torch.set_num_threads(1)
    few = torch.cat([material.logarithm(row[None]) for row in ANGLES[:30]])
    assert (few - found[:30]).abs().max() <= 1e-6
    assert (material.logarithm(ANGLES) - found[-500:]).abs().max() <= 1e-6


def test_which_models_several_threads_may_evaluate():
    """Hypernetworks put tensors into a network while it runs; what a network of one's own does is not known."""
    shared = {name for name in EIGHT if is_shareable(fitted(name).model)}
    assert shared == {"kernel-grid", "kernel-grid-free", "kernel-siren", "kernel-ffn", "dot-siren", *SOFT}
    assert not is_shareable(Constant(0.7))


def test_where_the_reference_is_not_known():
    """Valid where the reference is, and 0 elsewhere."""

    class Half(Lambert):
        def valid(self, angles: Tensor) -> Tensor:
            return super().valid(angles) & (angles[:, 0] < 0.5)

    material = as_material(fitted("nbrdf"), reference=Half())
    beyond = ANGLES[:, 0] >= 0.5
    assert float(material(ANGLES)[beyond].abs().max()) == 0.0 < float(material(ANGLES)[~beyond].max())
    assert torch.equal(material.valid(ANGLES), Half().valid(ANGLES))


@pytest.mark.parametrize("method", ["kernel-siren", "nbrdf"])
def test_many_and_no_directions(method: str):
    """More than one chunk gives what the parts give; none gives none; no graph is kept."""
    material = as_material(fitted(method))
    many = ANGLES.repeat(CHUNK // 500 + 2, 1)
    values = material(many)
    assert (values[-500:] - material(ANGLES)).abs().max() <= 1e-5 * values.max()
    assert not values.requires_grad
    assert material(ANGLES[:0]).shape == (0, 3)


# Files


@pytest.mark.parametrize("method", EIGHT)
def test_round_trip(method: str, tmp_path: Path):
    """Written and read: the same numbers bit for bit in the model's precision, and conditions as exact as before."""
    fit = fitted(method)
    save_model(fit.model, tmp_path / "model.pt")
    model = load_model(tmp_path / "model.pt", fit.method.constrained)
    assert not model.training
    assert {n: p.dtype for n, p in model.named_parameters()} == {n: p.dtype for n, p in fit.model.named_parameters()}
    points = encode(ANGLES).to(next(fit.model.parameters()).dtype)
    with torch.no_grad():
        assert torch.equal(model(points), fit.model.eval()(points))
    if isinstance(model, cnf.ConstrainedField):
        assert fit.certificate is not None and model.solve().certificate.exact == fit.certificate.exact


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
def test_single_precision_round_trip(tmp_path: Path):
    """A constrained model in float32 comes back in float32."""
    coarse = copy.deepcopy(fitted("kernel-siren").model).float()
    save_model(coarse, tmp_path / "model.pt")
    model = load_model(tmp_path / "model.pt", True)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    with torch.no_grad():
        assert torch.equal(model(encode(ANGLES).float()), coarse(encode(ANGLES).float()))


def write(path: Path, method: str) -> bytes:
    save_model(fitted(method).model, path)
    return path.read_bytes()


@pytest.mark.parametrize("method", ["kernel-siren", "siren"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "flipped", "missing", "folder"])
def test_damaged_files(method: str, damage: str, tmp_path: Path):
    """One line with the file's name."""
    path = tmp_path / "model.pt"
    content = write(path, method)
    if damage == "missing":
        path.unlink()
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes({"cut": content[:middle], "empty": b"", "text": b"not a model", "flipped": flipped}[damage])
    with pytest.raises(FileError, match=r"model\.pt") as caught:
        load_model(path, METHODS[method].constrained)
    assert "\n" not in str(caught.value)


def test_the_wrong_kind(tmp_path: Path):
    """A field is not a network, nor a network a field."""
    for method in ("kernel-siren", "nbrdf"):
        write(tmp_path / "model.pt", method)
        with pytest.raises(CnfError) as caught:
            load_model(tmp_path / "model.pt", not METHODS[method].constrained)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change", ["no network", "no state", "other shape", "other names", "odd type", "not a dictionary"]
)
@pytest.mark.parametrize("method", SOFT)
def test_files_that_do_not_fit(method: str, change: str, tmp_path: Path):
    """Whole archives with the wrong content: refused, not half loaded."""
    path = tmp_path / "model.pt"
    write(path, method)
    content = torch.load(path, weights_only=True)
    state = content["state"]
    if change == "no network":
        del content["network"]
    elif change == "no state":
        del content["state"]
    elif change == "other shape":
        key = next(k for k, v in state.items() if v.dim() == 2)
        state[key] = state[key][:-1]
    elif change == "other names":
        content["state"] = {f"{k}x": v for k, v in state.items()}
    elif change == "odd type":
        content["network"] = 7
    else:
        content["state"] = [1, 2]
    torch.save(content, path)
    with pytest.raises(CnfError) as caught:
        load_model(path, False)
    assert "\n" not in str(caught.value)
