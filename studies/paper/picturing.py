"""Picturing: figures that need what a run keeps beside its rows: fields, renderings, meshes.

In: the folder of a study, as it is after a run. Out: one picture. `NothingToShowError` says what is not there.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfError, FileError
from cnf.reading.arrays import read_arrays
from cnf.reports.plots import GREY, draw
from studies.keeping import LARGEST_ARRAYS, read_kept
from studies.materials.subjects import FILE, NETWORK, RGL, RGL_NETWORKS
from studies.paper.drawing import as_measured
from studies.study import Row

Kept = list[tuple[Row, dict[str, np.ndarray]]]
SHOWN = 3  # materials of a figure
METHODS = ("nbrdf", "ffn", "siren", "kernel-ffn", "kernel-siren", "kernel-grid")
GALLERY = ("kernel-siren", "kernel-grid")  # the one that most materials were run with
ABLATION = ("layer", "hypernet", "dot-siren", "kernel-siren")


class NothingToShowError(CnfError):
    """What a figure needs was not run, or is no longer there."""


def find_kept(name: str, folder: Path) -> Kept:
    """Finished rows with the arrays that were kept with them."""
    found: Kept = []
    for path, kept in read_kept(name, folder):
        try:
            if "failed" not in kept["row"]:
                found.append(({**kept["case"], **kept["row"]}, read_arrays(path.with_suffix(".npz"), LARGEST_ARRAYS)))
        except FileError:
            continue
    if not found:
        raise NothingToShowError(f"{folder} has no arrays of {name}")
    return found


def draw_light_path(folder: Path, path: Path) -> None:
    """Figure 1, as the study draws it."""
    from studies.paper.jobs import find_job

    rows = [row for row, _ in find_kept("light-path", folder)]
    study = find_job("light-path").study()()
    made = study.plots(sorted(rows, key=study.name_case), folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made[0], path)


def draw_advection(folder: Path, path: Path) -> None:
    """Figure 4: the grid of perturbation 0.1 and the errors of every method on it."""
    from studies.advection.plots import plot_maps

    found = find_kept("advection", folder)
    first = min(row["seed"] for row, _ in found)
    shown = [(row, maps) for row, maps in found if row["perturbation"] == 0.1 and row["seed"] == first]
    if not shown:
        raise NothingToShowError("perturbation 0.1 was not run")
    order = ("rbf", "skewed-rbf", "random-fourier", "rbf-paper", "skewed-rbf-paper", "siren")
    shown.sort(key=lambda pair: order.index(pair[0]["method"]) if pair[0]["method"] in order else len(order))
    plot_maps([row for row, _ in shown], [maps for _, maps in shown], path)


def draw_planar_shapes(folder: Path, path: Path) -> None:
    """Figure 3a: the hypernet kernel alone, before training above, after it below."""
    from cnf.shapes.report.field_panel import paint_field
    from studies.normals.shapes import find_shape

    found = _find_fields(folder, ("exact",))

    def paint(figure: Any) -> None:
        panels = figure.subplots(2, len(found), squeeze=False)
        for column, (row, fields) in zip(panels.T, found, strict=True):
            shape = find_shape(row["shape"])
            for panel, when in zip(column, ("before", "after"), strict=True):
                if f"{when}_grid" in fields:
                    paint_field(panel, fields[f"{when}_grid"], shape.points.numpy(), shape.normals.numpy())
            column[0].set_title(row["shape"])
        for panel, label in zip(panels[:, 0], ("at the start", "trained"), strict=True):
            panel.set_ylabel(label, fontsize=11)

    draw(path, (2.5 * len(found) + 0.3, 5.3), paint)


def draw_normals(folder: Path, path: Path) -> None:
    """Figure 15: pseudo-normals beside exact ones."""
    from studies.normals.plots import plot_fields

    found = _find_fields(folder, ("pseudo", "exact"))
    plot_fields([row for row, _ in found], [fields for _, fields in found], path)


def _find_fields(folder: Path, methods: Sequence[str]) -> Kept:
    """Fields of some methods, shape by shape."""
    from studies.normals.shapes import SHAPES

    found = [(row, fields) for row, fields in find_kept("normals", folder) if row["method"] in methods]
    if not found:
        raise NothingToShowError(f"no shape was run with {' or '.join(methods)}")
    places = list(SHAPES)
    return sorted(found, key=lambda pair: (places.index(pair[0]["shape"]), methods.index(pair[0]["method"])))


def draw_surfaces(folder: Path, path: Path) -> None:
    """Figure 3b: meshes through exact normals above, by the paper's scheme below, each as it is."""
    from cnf.shapes.files.reading import read_mesh
    from cnf.shapes.report.shaded import shade_mesh
    from studies.shapes.collection import SHAPES, Shape

    ways = {"cnf": "exact normals", "paper": "the paper's scheme"}
    pictures: dict[tuple[str, str], np.ndarray] = {}
    for _, kept in read_kept("shapes", folder):
        row = {**kept["case"], **kept["row"]}
        file = next((folder / name for name in kept["files"] if name.endswith(".ply")), None)
        if "failed" in row or row["method"] not in ways or file is None or not file.is_file():
            continue
        look = SHAPES.get(row["shape"], Shape(""))
        pictures[row["shape"], row["method"]] = shade_mesh(
            read_mesh(file), "three-quarter", up=look.up, turn=look.turn, size=460
        )
    shapes = [name for name in SHAPES if any(shape == name for shape, _ in pictures)]
    methods = [name for name in ways if any(method == name for _, method in pictures)]
    if not shapes:
        raise NothingToShowError(f"{folder} has no meshes of {' or '.join(ways)}")

    def paint(figure: Any) -> None:
        panels = figure.subplots(len(methods), len(shapes), squeeze=False)
        for line, method in zip(panels, methods, strict=True):
            for panel, shape in zip(line, shapes, strict=True):
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set_visible(False)
                if (shape, method) in pictures:
                    panel.imshow(pictures[shape, method])
            line[0].set_ylabel(ways[method], fontsize=11)
        for panel, shape in zip(panels[0], shapes, strict=True):
            panel.set_title(shape)

    draw(path, (2.7 * len(shapes) + 0.3, 2.8 * len(methods) + 0.2), paint)


def draw_materials(folder: Path, path: Path) -> None:
    """Figure 2: some of the most specular materials by the paper's five methods."""
    _draw_renderings(folder, path, METHODS)


def draw_ablation(folder: Path, path: Path) -> None:
    """Figure 7: the same materials by other bases."""
    _draw_renderings(folder, path, ABLATION)


def _draw_renderings(folder: Path, path: Path, methods: Sequence[str]) -> None:
    from cnf.materials.report.pictures import draw_comparison
    from studies.materials.pages import picture_rows

    found = [(row, images) for row, images in find_kept("materials", folder) if row["method"] in methods]
    there = [name for name in methods if any(row["method"] == name for row, _ in found)]
    if len(there) < len(methods) and path.exists():  # a run of some methods must not take the others from a picture
        raise NothingToShowError(f"{folder} has only {', '.join(there) or 'none'} of {', '.join(methods)}")
    cases = as_measured([row for row, _ in found])
    pairs = [(case, images) for case, (_, images) in zip(cases, found, strict=True)]
    specular = sorted(pairs, key=lambda pair: (not pair[0].held_out, -(pair[0].glossiness or 0.0), pair[0].material))
    rows = picture_rows(specular, there) if there else []
    if not rows:
        raise NothingToShowError(f"no material was run with all of {', '.join(there or methods)}")
    draw_comparison(rows[:SHOWN], path)


def draw_gallery(folder: Path, path: Path) -> None:
    """Figures 9 to 14 on one page: every material as it is and as it was fitted, side by side."""
    from cnf.materials.report.method_style import title_of

    kept = find_kept("materials", folder)
    counts = {name: sum(row["method"] == name for row, _ in kept) for name in GALLERY}
    method = max(GALLERY, key=lambda name: counts[name])
    found = [(row, images) for row, images in kept if row["method"] == method]
    if not found:
        raise NothingToShowError(f"no material was run with {' or '.join(GALLERY)}")
    found.sort(key=lambda pair: (str(pair[0]["group"]).startswith("RGL"), pair[0]["material"]))
    columns = min(8, len(found))
    lines = math.ceil(len(found) / columns)

    def paint(figure: Any) -> None:
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel in panels:
            panel.set_axis_off()
        for panel, (row, images) in zip(panels, found, strict=False):
            pair = np.concatenate([np.clip(images[name], 0, 1) for name in ("reference", "image")], axis=1)
            panel.imshow(pair, interpolation="bilinear")
            panel.set_title(_short_label(row), fontsize=6.5, pad=2)
            panel.text(
                0.5,
                -0.03,
                f"{row['ssim']:.4f}",
                transform=panel.transAxes,
                ha="center",
                va="top",
                fontsize=6,
                color=GREY,
            )

        figure.suptitle(f"{len(found)} materials: reference, {title_of(method)}; SSIM", fontsize=9)

    draw(path, (1.75 * columns, 1.15 * lines + 0.4), paint)


def _short_label(row: Row) -> str:
    """The material's name; of RGL's it is said, and whether it is a table."""
    name, group = str(row["material"]).removeprefix(NETWORK).removeprefix(FILE), str(row["group"])
    return f"RGL {name} (table)" if group == RGL else f"RGL {name}" if group == RGL_NETWORKS else name
