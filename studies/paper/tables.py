"""Tables of the paper as data: its numbers, and which of our rows stand beside each.

Tables are numbered as in the paper, and named by the labels of its source. A `Line` is a row, a `Quantity` a column;
together they say which rows of a study to take, and the quantity says which column of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# column -> value that rows must have; words may end in * for any rest; of several values the first that some row has
Where = Mapping[str, Any]
Value = float | tuple[float, float] | None  # with a standard deviation, or nothing
OWN, BASELINE = "own", "baseline"  # what the paper proposes, and what it compares with


@dataclass(frozen=True)
class Quantity:
    """A column of a table: `better` is -1 if low values are good, 1 if high ones are."""

    heading: str
    column: str  # of our rows
    where: Where = field(default_factory=dict)
    better: int = -1
    style: str = ".1e"
    scale: float = 1.0  # ours times this has the paper's unit
    absolute: float | None = None  # compared by difference; closer than this counts as the same
    role: str = ""  # that of the line unless said
    processor: tuple[str, ...] = ()  # columns of processor seconds; the first that rows have counts
    paper_style: str = "g"
    all_of: str = "worst"  # of several rows: worst, mean or median


@dataclass(frozen=True)
class Line:
    """A row of a table: the paper's values, one per quantity."""

    label: str
    values: tuple[Value, ...]
    where: Where = field(default_factory=dict)
    role: str = OWN
    optional: bool = False  # ours alone: shown if it was measured


@dataclass(frozen=True)
class PaperTable:
    """One table; `count` rows of ours are behind every entry at the paper's size."""

    number: str
    label: str
    title: str
    job: str
    first: str  # heading of the first column
    quantities: tuple[Quantity, ...]
    lines: tuple[Line, ...]
    count: int = 1
    seconds: bool = False  # times: of another machine than the paper's
    again: bool = False  # numbers that another table has already: not counted a second time
    beside: bool = False  # shown beside each other, but not the same thing: neither compared nor counted
    about: str = ""
    details: bool = False  # all that the study measured stands below this one

    def role(self, line: Line, quantity: Quantity) -> str:
        return quantity.role or line.role


MERL: Where = {"group": ("MERL", "NBRDF of MERL*")}
PICTURES = (
    Quantity("RMSE × 100", "rmse", MERL, style=".2f", scale=100, all_of="mean", paper_style=".2f"),
    Quantity("PSNR, dB", "psnr", MERL, better=1, style=".2f", absolute=0.05, all_of="mean", paper_style=".2f"),
    Quantity("SSIM", "ssim", MERL, better=1, style=".3f", absolute=0.005, all_of="mean", paper_style=".2f"),
)
STAND_INS = (
    "The paper has the 100 measured MERL materials, which may not be passed on. Unless rows are of these files "
    "(`python -m studies materials --merl FOLDER`), ours are stand-ins: the published networks of the same "
    "materials (“NBRDF of MERL chrome” and so on), the ten most specular and ten spread over the others, each "
    "with the paper's number of samples, visits, conditions and parameters. These are not results on MERL."
)
MATERIALS = PaperTable(
    *("2", "table:brdf", "Materials: renderings of learned reflectance", "materials", "method", PICTURES),
    lines=(
        Line("NBRDF", ((1.57, 2.86), (44.96, 11.55), (0.96, 0.07)), {"method": "nbrdf"}, BASELINE),
        Line("FFN", ((1.16, 1.36), (44.72, 10.46), (0.98, 0.03)), {"method": "ffn"}, BASELINE),
        Line("SIREN", ((3.32, 3.05), (33.43, 8.84), (0.93, 0.08)), {"method": "siren"}, BASELINE),
        Line("Kernel FFN", ((0.94, 1.16), (46.32, 9.92), (0.98, 0.03)), {"method": "kernel-ffn"}),
        Line("Kernel SIREN", ((0.60, 0.54), (47.95, 7.99), (0.99, 0.01)), {"method": "kernel-siren"}),
        Line("ours alone: kernel-grid", (None, None, None), {"method": "kernel-grid"}, optional=True),
    ),
    count=20,
    about=STAND_INS,
    details=True,
)
ABLATION = PaperTable(
    *("4", "table:brdf_abla", "Materials: ablation of the basis", "materials", "basis", PICTURES),
    lines=(
        Line("Hypernet basis", ((39.02, 16.92), (9.74, 6.41), (0.70, 0.06)), {"method": "hypernet"}, BASELINE),
        Line("Dot-product kernel", ((9.49, 11.32), (28.33, 13.22), (0.86, 0.13)), {"method": "dot-siren"}, BASELINE),
        Line("Constraint layer", ((41.85, 14.14), (8.37, 4.37), (0.70, 0.06)), {"method": "layer"}, BASELINE),
        Line("Gaussian kernel", ((0.60, 0.54), (47.95, 7.99), (0.99, 0.01)), {"method": "kernel-siren"}),
    ),
    count=20,
    about="All on SIREN; the Gaussian kernel is Kernel SIREN of table 2. " + STAND_INS,
)


def _seconds(training: str = "training_seconds", where: Where | None = None) -> tuple[Quantity, ...]:
    given, processor = where or {}, (training.removesuffix("seconds") + "processor_seconds", "cpu_seconds")
    shown = {"style": ".3g", "all_of": "median"}
    return (
        Quantity("training, s", training, given, processor=processor, **shown),  # type: ignore[arg-type]
        Quantity("inference, s", "inference_seconds", given, processor=("inference_processor_seconds",), **shown),  # type: ignore[arg-type]
    )


MATERIAL_SECONDS = PaperTable(
    *("5", "table:brdf_report", "Materials: seconds of training and inference", "materials", "method"),
    _seconds("seconds", MERL),
    lines=(
        Line("SIREN", (578.89, 0.3348), {"method": "siren"}, BASELINE),
        Line("NBRDF", (19.702, 0.2966), {"method": "nbrdf"}, BASELINE),
        Line("Constraint layer", (577.49, 0.2539), {"method": "layer"}, BASELINE),
        Line("Gaussian kernel", (1101.3, 0.7284), {"method": "kernel-siren"}),
        Line("Hypernet basis", (2997.5, 0.6933), {"method": "hypernet"}, BASELINE),
        Line("Hypernet kernel", (1784.1, 1.1692), {"method": "hypernet-kernel"}),
    ),
    count=20,
    seconds=True,
    about="Medians over the materials. Inference: a hundred thousand evaluations here, times ten; the paper does not "
    "say how many it timed.",
)
SIMPLE, SKEWED = {"method": "rbf"}, {"method": "skewed-rbf"}
ADVECTION = PaperTable(
    *("3", "table:advection-results", "Advection on perturbed grids", "advection", "perturbation"),
    (
        Quantity("RBF, RMSE", "rmse", SIMPLE),
        Quantity("RBF, nRMSE", "nrmse", SIMPLE),
        Quantity("skewed RBF, RMSE", "rmse", SKEWED),
        Quantity("skewed RBF, nRMSE", "nrmse", SKEWED),
    ),
    lines=(
        Line("0.01", (0.0086, 0.0149, 0.0061, 0.0116), {"perturbation": 0.01}),
        Line("0.05", (0.0252, 0.0442, 0.0024, 0.0043), {"perturbation": 0.05}),
        Line("0.10", (0.1484, 0.2534, 0.0344, 0.0651), {"perturbation": 0.1}),
        Line("0.50", (0.0170, 0.0297, 0.0167, 0.0282), {"perturbation": 0.5}),
        Line("1.00", (0.2830, 0.4838, 0.0231, 0.0365), {"perturbation": 1.0}),
    ),
    count=5,
    about="Of several random grids the worst is shown. Both of ours choose their widths by the residual at held-out "
    "points, which the paper does not; its own objective is below. The paper does not say how its nRMSE was taken; "
    "RMSE is the column to compare.",
    details=True,
)
OBJECTIVE = PaperTable(
    *("3", "objective", "The same by the paper's objective: condition number and total variation", "advection"),
    "perturbation",
    tuple(replace(q, where={"method": f"{q.where['method']}-paper"}) for q in ADVECTION.quantities),
    lines=ADVECTION.lines,
    again=True,
    about="One random grid. What is minimised, the basis and the solver are the paper's; start, weights, learning rate "
    "and number of steps are ours, start and rate chosen by the error of the row 0.10 itself, which is biased by that.",
)
PDE_SECONDS = PaperTable(
    *("8", "table:pde_report", "Advection: seconds of training and inference", "advection", "method", _seconds()),
    lines=(
        Line("SIREN", (36.7, 0.0087), {"method": "siren"}, BASELINE),
        Line("RBF", (160.7, 0.0056), SIMPLE),
        Line("Skewed RBF", (265.6, 0.0061), SKEWED),
    ),
    count=5,
    seconds=True,
    about="Medians over perturbations and grids. Inference: 10,201 points here; the paper does not say how many it "
    "timed.",
)
TRANSFER = PaperTable(
    *("9", "table:advection-transfer-learning", "Transfer: trained for one initial state, solved for others"),
    *("transfer", "shift μ"),
    (
        Quantity("random, RMSE", "random_rmse", role=BASELINE),
        Quantity("random, nRMSE", "random_nrmse", role=BASELINE),
        Quantity("pre-trained, RMSE", "rmse"),
        Quantity("pre-trained, nRMSE", "nrmse"),
    ),
    lines=(
        Line("0", (0.0127, 0.0227, 0.0070, 0.0129), {"shift": 0.0}),
        Line("1", (0.0460, 0.0736, 0.0049, 0.0074), {"shift": 1.0}),
        Line("10", (0.5788, 0.0594, 0.0177, 0.0018), {"shift": 10.0}),
        Line("100", (5.8613, 0.0587, 0.2221, 0.0022), {"shift": 100.0}),
        Line("1000", (60.143, 0.0602, 2.3113, 0.0023), {"shift": 1000.0}),
        Line("10000", (635.78, 0.0636, 23.844, 0.0024), {"shift": 10000.0}),
    ),
    count=5,
    about="Nothing is trained but the basis of the first row. The paper does not say how far its grid is perturbed; "
    "ours is by 0.1. Of five random grids the worst is shown; the width of the random basis was set with its errors in "
    "view.",
    details=True,
)
NORMALS = PaperTable(
    *("6", "tab:normal_error", "Normals: mean error at the points", "normals", "shape"),
    (
        Quantity("SIREN, trained", "normal_error", {"method": "siren"}, role=BASELINE),
        Quantity("pseudo-normals, start", "start_normal_error", {"method": "pseudo"}, role=BASELINE),
        Quantity("pseudo-normals, trained", "normal_error", {"method": "pseudo"}, role=BASELINE),
        Quantity("exact normals, start", "start_normal_error", {"method": "exact"}),
        Quantity("exact normals, trained", "normal_error", {"method": "exact"}),
    ),
    lines=(
        Line("circle", (1.71e-2, 0.776, 0.499, 4.516e-6, 1.083e-6), {"shape": "circle"}),
        Line("line", (1.02e-3, 3.817, 1.589e-2, 2.737e-6, 6.963e-6), {"shape": "line"}),
        Line("triangle", (3.21e-1, 0.466, 0.238, 7.371e-5, 6.292e-6), {"shape": "triangle"}),
        Line("diamond", (1.05e-1, 1.588, 0.277, 1.450e-5, 3.368e-6), {"shape": "diamond"}),
    ),
    about="Ours are measured by reverse-mode differentiation of the field's values, not by the code that imposes them. "
    "SIREN was tuned on the circle by the error shown there; the other shapes took no part.",
    details=True,
)
SURFACE_SECONDS = PaperTable(
    *("7", "table:surface_report", "Normals: seconds of training and inference", "normals", "method", _seconds()),
    lines=(
        Line("Hypernet kernel", (242.0, 0.0663), {"method": "exact"}),
        Line("SIREN", (148.4, 0.1437), {"method": "siren"}, BASELINE),
    ),
    count=4,
    seconds=True,
    about="Medians over the shapes. The paper does not say at how many points it timed inference.",
)
PATCHES = PaperTable(
    *("text", "sec:supp-sdf", "Surfaces of 10,000 points: seconds of the paper's scheme", "shapes", "scheme"),
    (Quantity("seconds", "seconds", style=".3g", processor=("processor_seconds",), all_of="median"),),
    lines=(Line("a small system per node, 160³ nodes", (8 * 3600.0,), {"method": "paper"}),),
    seconds=True,
    beside=True,
    about="Not a table of the paper: its text gives “approximately 8 hours”, for all nodes, one after the other. Ours "
    "is the same scheme in batches and near the surface only, a median over the shapes it was run on; no ratio of "
    "speeds follows.",
    details=True,
)
TABLES = (
    *(MATERIALS, ADVECTION, OBJECTIVE, ABLATION, MATERIAL_SECONDS, NORMALS),
    *(SURFACE_SECONDS, PDE_SECONDS, TRANSFER, PATCHES),
)


def find_table(label: str) -> PaperTable:
    """A table by its label."""
    return next(table for table in TABLES if table.label == label)
