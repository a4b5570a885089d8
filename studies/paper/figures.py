"""Figures of the paper: which picture of ours stands beside each, and what it is drawn from.

Pictures drawn from rows are renewed with the page. Those that need more (fields, renderings, meshes) are drawn from the
folder of a run, when its rows are collected, and kept in the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from studies.paper import drawing, picturing
from studies.paper.angles import draw_angles
from studies.paper.images import shrink_picture
from studies.paper.jobs import EVERY_MATERIAL
from studies.paper.records import Records


@dataclass(frozen=True)
class Figure:
    """A figure of the paper; `parts` are the names of our pictures, `from_rows` or `from_folder` draws each."""

    number: str
    label: str
    title: str
    job: str  # "" if no rows are needed
    parts: tuple[Part, ...]
    about: str = ""
    details: bool = False  # no table of the paper has what the study measured: its own stand below


@dataclass(frozen=True)
class Part:
    """One picture: its file name, what can be seen, and one of two ways to draw it."""

    name: str
    caption: str
    from_rows: Callable[[Records, Path], object] | None = None
    from_folder: Callable[[Path, Path], object] | None = None  # the study's folder, the picture
    from_nothing: Callable[[Path], object] | None = None
    methods: tuple[str, ...] = ()  # that the caption promises

    @property
    def file(self) -> str:
        return f"{self.name}.png"


FIGURES = (
    Figure(
        *("1", "fig:fermat", "Paths of light before and after optimisation", "light-path"),
        (
            Part(
                "light_path",
                "The path before and after training, both ends held",
                from_folder=picturing.draw_light_path,
            ),
        ),
        "The paper shows the path and its travel time for one start; ours begin at several.",
        details=True,
    ),
    Figure(
        *("2", "fig:brdf", "Learned materials, highlights", "materials"),
        (
            Part(
                "materials",
                "Specular stand-ins: what they are held against, every method, enlarged highlights and errors",
                from_folder=picturing.draw_materials,
                methods=picturing.METHODS,
            ),
        ),
    ),
    Figure(
        *("3a", "fig:geometry", "Planar shapes with exact points and normals", "normals"),
        (
            Part(
                "planar_shapes",
                "Fields of the hypernet kernel; yellow: points, arrows: normals, black: zero level set",
                from_folder=picturing.draw_planar_shapes,
            ),
        ),
    ),
    Figure(
        *("3b", "fig:geometry", "Surfaces through 10,000 points", "shapes"),
        (
            Part(
                "surfaces",
                "Above: exact points and normals, one sparse system; below: the paper's scheme with pseudo-normals",
                from_folder=picturing.draw_surfaces,
            ),
        ),
    ),
    Figure(
        *("4", "fig:advection-vis", "Advection: field, grid and error maps at perturbation 0.1", "advection"),
        (Part("advection_maps", "Errors on one logarithmic scale", from_folder=picturing.draw_advection),),
    ),
    Figure(
        *("5", "fig:ablation-cond", "Condition numbers of four bases during training", "conditioning"),
        (Part("conditioning", "Trained for the condition number alone", from_rows=drawing.draw_conditioning),),
        "The paper has curves and no numbers: only the Gaussian kernel is well conditioned, all others struggle.",
        details=True,
    ),
    Figure(
        *("6", "fig:brdf_angle", "Angles of half and difference vector", ""),
        (Part("angles", "Drawn here from their definition; n is the normal, t the tangent", from_nothing=draw_angles),),
    ),
    Figure(
        *("7", "fig:brdf_abla", "Materials: ablation of the basis", "materials"),
        (
            Part(
                "materials_ablation",
                "The same materials by other bases, all on SIREN, and by the Gaussian kernel",
                from_folder=picturing.draw_ablation,
                methods=picturing.ABLATION,
            ),
        ),
    ),
    Figure(
        *("8", "fig:brdf_learning_curve", "Materials: learning curves", "materials"),
        (Part("materials_curves", "Means over the materials that were run", from_rows=drawing.draw_material_curves),),
    ),
    Figure(
        *("9 to 14", "fig:brdf0 … fig:brdf5", "All materials", EVERY_MATERIAL),
        (
            Part(
                "materials_gallery",
                "Reference left, fit right, SSIM below; networks stand in for all materials but those marked as tables",
                from_folder=picturing.draw_gallery,
            ),
        ),
        "At a tenth of the paper's sample visits, see beside table 2.",
    ),
    Figure(
        *("15", "fig:shape_compare", "Exact normals beside pseudo-normals", "normals"),
        (
            Part(
                "normals",
                "Normals as given (black) and as the field has them (red), before and after training",
                from_folder=picturing.draw_normals,
                methods=("exact", "pseudo"),
            ),
        ),
    ),
    Figure(
        *("16", "fig:surface_learning_curve", "Normals: learning curves", "normals"),
        (
            Part(
                "normals_curves",
                "Eikonal loss, and below it how well the conditions hold meanwhile",
                from_rows=drawing.draw_normal_curves,
            ),
        ),
    ),
    Figure(
        *("17", "fig:pde_learning_curve", "Advection: learning curves", "advection"),
        (Part("advection_curves", "RMSE above, what is minimised below", from_rows=drawing.draw_advection_curves),),
    ),
)
EXTRA = (
    Figure(
        *("table 9", "table:advection-transfer-learning", "Transfer as a picture", "transfer"),
        (Part("transfer", "nRMSE over the shift, ours and the paper's", from_rows=drawing.draw_transfer),),
    ),
)


def is_drawn(figure: Figure, records: Mapping[str, Records | None], images: Path) -> bool:
    """Whether its pictures are there, and rows that they were drawn with."""
    return (not figure.job or records.get(figure.job) is not None) and all(
        (images / part.file).is_file() for part in figure.parts
    )


def find_absent(figure: Figure, records: Records) -> list[str]:
    """Methods that its captions promise and no row has."""
    there = {row.get("method") for row in records.rows}
    return [name for part in figure.parts for name in part.methods if name not in there]


def draw_from_rows(found: dict[str, Records | None], images: Path) -> list[str]:
    """Every picture that rows, or nothing at all, are enough for; says in words which could not be drawn."""
    lacking = []
    for figure in (*FIGURES, *EXTRA):
        records = found.get(figure.job)
        for part in figure.parts:
            path = images / part.file
            try:
                if part.from_nothing is not None:
                    part.from_nothing(path)
                elif part.from_rows is not None and records is not None and records.rows:
                    part.from_rows(records, path)
                else:
                    continue
            except (KeyError, TypeError, ValueError) as error:  # rows of an earlier version may lack something
                lacking.append(f"figure {figure.number} is not drawn: {type(error).__name__}: {error}")
                continue
            shrink_picture(path)
    return lacking


def draw_from_folder(job: str, folder: Path, images: Path) -> list[str]:
    """The pictures that need what a run keeps beside its rows; says in words which could not be drawn."""
    lacking = []
    for figure in FIGURES:
        for part in figure.parts if figure.job == job else ():
            if part.from_folder is None:
                continue
            try:
                part.from_folder(folder, images / part.file)
            except (picturing.NothingToShowError, KeyError, TypeError, ValueError) as error:
                lacking.append(f"figure {figure.number} is not drawn: {error}")
                continue
            shrink_picture(images / part.file)
    return lacking
