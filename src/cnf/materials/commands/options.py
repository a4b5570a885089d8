"""What the commands about materials share: their options, and how what was typed becomes materials and settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError

if TYPE_CHECKING:
    from cnf.materials.fitting.fit import Settings
    from cnf.materials.reflectance import Material
    from cnf.materials.rendering.environments import Environment

ALL_METHODS = (
    "kernel-grid, kernel-grid-free, kernel-siren, kernel-ffn, nbrdf, ffn, siren, dot-siren, hypernet, "
    "hypernet-kernel, layer; at the paper's learning rates: nbrdf-paper, ffn-paper, siren-paper"
)
FILES = "MERL .binary, RGL .bsdf, .npz, .csv, or words such as ggx:gold:0.1, plastic:0.8,0.1,0.1:0.1, lambert:0.5"

Name = Annotated[str | None, typer.Option("--name", help="Which material of an archive; cnf material list shows them.")]
Quick = Annotated[bool, typer.Option("--quick", help="640 steps of 1000 samples instead of 1280 of 5000.")]
Samples = Annotated[int | None, typer.Option(min=1, max=10**7, help="Of the material, for training (640000).")]
Epochs = Annotated[int | None, typer.Option(min=1, max=10**6, help="How often all samples are used (10).")]
Batch = Annotated[int | None, typer.Option(min=1, max=10**7, help="Samples per step (5000).")]
Conditions = Annotated[
    int | None, typer.Option(min=1, max=5000, help="Measurements that constrained methods reproduce exactly (100).")
]
Parameters = Annotated[
    int | None, typer.Option(min=100, max=10**7, help="Learnable numbers of every method, about (200000).")
]
Placement = Annotated[
    str | None, typer.Option(metavar="paper|largest-error", help="How conditions are placed (paper).")
]
OnNodes = Annotated[
    str | None,
    typer.Option(
        metavar="auto|yes|no", help="Conditions are entries of a MERL table (auto: if the material is a table)."
    ),
]
Sampling = Annotated[
    str | None, typer.Option(metavar="highlight|uniform", help="Where the samples are (highlight: half near it).")
]
Loss = Annotated[
    str | None,
    typer.Option(metavar="plain|weighted|cosine", help="L1 of log(1 + f), and how the cosine enters (plain: not)."),
]
Reciprocity = Annotated[
    str | None,
    typer.Option(
        metavar="auto|yes|no", help="Light and eye may be swapped by construction (auto: if the material allows it)."
    ),
]
Rate = Annotated[float | None, typer.Option(metavar="NUMBER", help="Learning rate; by default the method's own.")]
Precision = Annotated[
    str | None, typer.Option(metavar="float64|float32", help="Of conditions and parameters of constrained methods.")
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; by default as many as torch takes.")]
Env = Annotated[
    Path | None, typer.Option("--env", help="Environment map, .hdr or .npz; by default a generated studio.")
]
Size = Annotated[int, typer.Option(min=16, max=2048, help="Pixels along a side of each picture.")]


def choose_settings(quick: bool, **changes: object) -> Settings:
    """The budget, with those options that were given."""
    from cnf.materials.fitting.fit import QUICK, Settings, with_budget

    return with_budget(QUICK if quick else Settings(), **changes)


def pick_budget(typed: Mapping[str, object]) -> dict[str, object]:
    """Of all that was typed (or a study was given) what belongs to the budget: the fields of `Settings`."""
    from cnf.materials.fitting.fit import Settings

    return {name: typed[name] for name in Settings.__dataclass_fields__ if name in typed}


def open_light(env: object = None) -> Environment:
    """The environment of a file, or the studio that cnf generates."""
    from cnf.materials.rendering import environments

    return environments.studio() if env is None else environments.read_environment(env)


def open_material(source: str, name: str | None = None) -> Material:
    """A material from a file or from words."""
    from cnf.materials.reflectance import read_material
    from cnf.materials.reflectance.reading import is_generated

    if name is not None and is_generated(source):
        raise CnfError(f"--name chooses from an archive; {source} is generated and has no others")
    return read_material(source, name)


def open_source(source: str, name: str | None = None, exact: bool = False) -> Material:
    """A material as above, or the fit that a folder holds; `exact`: in the precision of its conditions."""
    from cnf.materials.fitting.fitted import as_material
    from cnf.materials.fitting.folders import load_fit

    if not is_folder(source):
        return open_material(source, name)
    if name is not None:
        raise CnfError(f"--name chooses from an archive; {source} is the folder of one fit")
    fit = load_fit(source).fit
    return as_material(fit, fit.settings.dtype) if exact and fit.method.constrained else as_material(fit)


def is_folder(source: str) -> bool:
    try:
        return Path(source).is_dir()
    except (OSError, ValueError):
        return False


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
