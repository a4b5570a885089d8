"""What tests of commands about materials share: small budgets, generated materials, an archive, one light for all."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from cnf.materials.fitting import fit as fitting
from cnf.materials.fitting import measuring
from cnf.materials.reflectance import GGX, Material, physics, tabulate, write_merl
from cnf.materials.reflectance.checksums import Known
from cnf.materials.rendering import environments

BUDGET = ["--samples", "1000", "--epochs", "1", "--batch", "500", "--parameters", "3000", "--conditions", "20"]
SMALL = [*BUDGET, "--size", "32"]
GOLD = "ggx:gold:0.2"
RED = "plastic:0.8,0.1,0.1:0.2"
METAL = GGX("gold", 0.2)


def measure_little(patch: pytest.MonkeyPatch, *others: ModuleType) -> None:
    """The studio is made once, not for every command; measuring takes fewer samples, also in `others`."""
    studio = functools.cache(environments.studio)
    patch.setattr(environments, "studio", studio)
    patch.setattr(measuring, "HELD_OUT", 500)
    timed = functools.partial(measuring.time_inference, count=1000)
    for module in (measuring, *others):
        patch.setattr(module, "time_inference", timed)
    patch.setattr(physics, "PAIRS", 500)
    patch.setattr(physics, "directional_albedo", functools.partial(physics.directional_albedo, rings=12, turns=24))
    patch.setattr(measuring, "lobe_errors", functools.partial(measuring.lobe_errors, directions=500))


def check_refusal(
    run: Callable[[list[str]], int], capsys: pytest.CaptureFixture, arguments: list[str], words: str, code: int = 1
) -> None:
    """One line on stderr with these words, and the exit code."""
    capsys.readouterr()
    assert run(arguments) == code
    error = capsys.readouterr().err.strip()
    assert error.startswith("error:") and words in error and "\n" not in error, error


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def pack_networks(folder: Path) -> Path:
    """An archive of three packed networks with random weights, the first ever brighter towards the mirror."""
    rng = np.random.default_rng(0)
    shapes = {"W1": (6, 21), "b1": (21,), "W2": (21, 21), "b2": (21,), "W3": (21, 3), "b3": (3,)}
    arrays = {key: 0.2 * rng.random((3, *shape)).astype(np.float32) for key, shape in shapes.items()}
    path = folder / "data" / "brdf" / "nbrdf_merl100.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, names=np.array(["dull", "bright", "medium"]), **arrays)
    return path


def write_table(path: Path, material: Material = METAL) -> Path:
    """A file in MERL's format and of its size: a material at the nodes."""
    return write_merl(path, tabulate(material, dtype=torch.float64))


def know(path: Path) -> Known:
    """The entry that such a file would have in the list of MERL's files."""
    return Known(path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


def count_fits(monkeypatch: pytest.MonkeyPatch, *others: ModuleType) -> list[str]:
    """Methods as they are fitted from now on, also by other modules that have imported `fit_material`."""
    made: list[str] = []
    whole = fitting.fit_material

    def counted(material, method, *rest, **more):
        made.append(f"{material.name} {method}")
        return whole(material, method, *rest, **more)

    for module in (fitting, *others):
        monkeypatch.setattr(module, "fit_material", counted)
    return made
