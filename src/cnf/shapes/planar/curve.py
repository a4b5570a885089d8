"""A curve through points of the plane with normals: field, zero level set, and how well the conditions hold.

What comes in: a cloud that `prepare_cloud` has cleaned and scaled to [-1, 1]^2. What goes out: a field in
those coordinates, negative inside, and its zero level set as polylines in the coordinates of the input, every vertex
moved onto the zero set by Newton's method.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

import cnf
from cnf.errors import CnfError, CnfWarning, MissingExtraError
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.thinning import thin
from cnf.shapes.planar.conditions import OFFSET, SPACE, SQUARE, exact_conditions, pseudo_conditions
from cnf.shapes.planar.fields import Report, Size, choose_width, hermite_field, hypernet_field, train_hypernet
from cnf.training import History

MOST_POINTS = 4000  # 12,000 conditions: a dense system of 1.2 GB
MOST_TRAINED = 60  # points of a trained field: one generated network per condition
SCANNED = 200  # points with which kernel and width are chosen
LOOSE = 1e-10  # tolerance of the conditions, relative: a wider kernel is worth more than the last two digits
WIDEST = 40.0  # widths over spacing that are tried with all points
NEWTON, CLOSE = 4, 1e-13  # steps of Newton's method, and distance at which it stops


@dataclass(frozen=True, eq=False)
class PlanarCurve:
    """A field through the points, and its zero level set.

    >>> angle = 2 * np.pi * np.arange(16) / 16
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> curve = cnf.shapes.fit_curve(cnf.shapes.prepare_cloud(cnf.shapes.PointCloud(circle, normals=circle)), side=41)
    >>> len(curve.curves), curve.grid.shape
    (1, (41, 41))
    """

    prepared: Prepared
    field: cnf.ConstrainedField  # in the coordinates of `prepared`
    chosen: str  # kernel and width
    normals: str  # "exact" or "pseudo"
    course: History | None  # of the training, if there was one
    curves: tuple[np.ndarray, ...]  # polylines (k, 2) in the coordinates of the input; closed ones end where they begin
    grid: np.ndarray  # (side, side) values of the field on SQUARE, rows y, columns x
    gradients: np.ndarray  # (n, 2) of the field at the points
    value_error: float  # largest |d| at the points, in the coordinates of `prepared`
    normal_error: float  # mean |grad d - n|
    dropped: int  # zero level sets that pass by no point
    seconds: float

    @property
    def closed(self) -> int:
        """How many of the curves are closed."""
        return sum(bool((c[0] == c[-1]).all()) for c in self.curves)


def fit_curve(
    prepared: Prepared,
    normals: str = "exact",
    *,
    offset: float | None = None,
    train: bool = False,
    size: Size | None = None,
    seed: int = 0,
    side: int = 201,
    report: Report | None = None,
) -> PlanarCurve:
    """A field with d = 0 and grad d = n at every point ("exact"), or d = 0 and d = +-offset beside it ("pseudo").

    Kernel and width of the Hermite functions are chosen by the smallest eikonal loss. `train`: a hypernet kernel
    trained on the eikonal loss instead, for few points. `offset` is in the coordinates of the input.

    >>> angle = 2 * np.pi * np.arange(16) / 16
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> curve = cnf.shapes.fit_curve(cnf.shapes.prepare_cloud(cnf.shapes.PointCloud(circle, normals=circle)), side=41)
    >>> curve.closed, curve.value_error < 1e-9
    (1, True)
    """
    check_curve(prepared, normals, train)
    started = time.perf_counter()
    points, directions = torch.as_tensor(prepared.points), torch.as_tensor(prepared.normals)
    step = offset / prepared.scale if offset is not None else min(OFFSET, prepared.spacing / 2)

    def conditions(rows: np.ndarray | slice) -> list[cnf.Constraint]:
        if normals == "exact":
            return exact_conditions(points[rows], directions[rows])
        return pseudo_conditions(points[rows], directions[rows], step)

    course = None
    if train:
        sizes = size if size is not None else Size()
        model = hypernet_field(conditions(slice(None)), sizes, seed)
        chosen = f"hypernet kernel of width {choose_width(model, sizes):.3g} at the start"
        course = train_hypernet(model, sizes, seed, report)
    elif len(prepared) <= SCANNED:
        model, chosen = hermite_field(conditions(slice(None)), LOOSE)
    else:
        few, chosen = hermite_field(conditions(thin(prepared.points, SCANNED, seed)), LOOSE)
        model, chosen = _widest(few, conditions(slice(None)), prepared.spacing, chosen)
    solution = model.eval().solution
    with torch.no_grad():
        grid = solution(SQUARE.grid(side))[:, 0].reshape(side, side).T.numpy()
        value_error = float(solution(points).abs().max())
    gradients = slopes_at(solution, points)[1].numpy()
    found, dropped = trace(solution, grid, prepared)
    return PlanarCurve(
        prepared=prepared,
        field=model,
        chosen=chosen,
        normals=normals,
        course=course,
        curves=tuple(prepared.to_input(curve) for curve in found),
        grid=grid,
        gradients=gradients,
        value_error=value_error,
        normal_error=float(np.linalg.norm(gradients - prepared.normals, axis=1).mean()),
        dropped=dropped,
        seconds=time.perf_counter() - started,
    )


def check_curve(prepared: Prepared, normals: str, train: bool) -> None:
    """Refuse what cannot be done, before anything is."""
    if prepared.dimension != 2:
        raise CnfError(f"the points have {prepared.dimension} coordinates; a curve in the plane needs x and y")
    if normals not in ("exact", "pseudo"):
        raise CnfError(f"normals are 'exact' or 'pseudo'; got {normals!r}")
    if len(prepared) > MOST_POINTS:
        raise CnfError(f"{len(prepared)} points are more than {MOST_POINTS}; thin them first (most=...)")
    if train and len(prepared) > MOST_TRAINED:
        raise CnfError(
            f"a trained field has a network of its own for each of 3 x {len(prepared)} conditions, too many; train at "
            f"most {MOST_TRAINED} points, or leave the training out"
        )


def _widest(
    few: cnf.ConstrainedField, conditions: list[cnf.Constraint], spacing: float, chosen: str
) -> tuple[cnf.ConstrainedField, str]:
    """The kernel chosen with few points, with all of them: as wide as chosen, or the widest that float64 bears."""
    assert isinstance(few.basis, cnf.bases.Hermite)
    kernel, name = few.basis.kernel, chosen.partition(" of width ")[0]
    width = min(float(kernel.length.detach()), WIDEST * spacing)  # type: ignore[operator]
    while width > spacing:
        kernel.load_state_dict({"log_length": torch.tensor(math.log(width), dtype=torch.float64)})
        basis = cnf.bases.Hermite(SPACE, conditions, kernel)
        model = cnf.ConstrainedField(basis, conditions, tolerance=LOOSE).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            if model.certificate.exact:
                return model, f"{name} of width {width:.3g}"
        width /= 2
    raise CnfError(
        f"no width of the kernel meets the conditions to {LOOSE:g}; are there points that lie very close to each "
        "other, with normals that contradict?"
    )


def trace(solution: cnf.Solution, grid: np.ndarray, prepared: Prepared) -> tuple[list[np.ndarray], int]:
    """Polylines of the zero level set that pass by points, in scaled coordinates, and how many others there are."""
    try:
        from skimage.measure import find_contours
    except ImportError:
        raise MissingExtraError.of("level sets need scikit-image", "scikit-image", "geometry") from None
    cell = (SQUARE.high - SQUARE.low) / (grid.shape[0] - 1)
    near = max(2 * cell, prepared.spacing)
    tree = cKDTree(prepared.points)
    kept, dropped = [], 0
    for rows in find_contours(grid, 0.0):  # (k, 2): row (y), column (x)
        line = np.stack([SQUARE.low + cell * rows[:, 1], SQUARE.low + cell * rows[:, 0]], axis=1)
        if tree.query(line)[0].min() > near:
            dropped += 1
            continue
        kept.append(_on_zero(solution, line, cell))
    return kept, dropped


def _on_zero(solution: cnf.Solution, line: np.ndarray, cell: float) -> np.ndarray:
    """The vertices moved onto the zero set; those that would leave their cell stay where they were."""
    closed = bool((line[0] == line[-1]).all())
    start = torch.as_tensor(line[:-1] if closed else line)
    at = start.clone()
    for _ in range(NEWTON):
        value, slope = slopes_at(solution, at)
        move = value[:, None] * slope / slope.square().sum(dim=1, keepdim=True).clamp_min(1e-12)
        at = at - move
        if float(move.abs().max()) < CLOSE:
            break
    good = torch.linalg.vector_norm(at - start, dim=1) <= cell
    moved = torch.where(good[:, None], at, start).numpy()
    return np.concatenate([moved, moved[:1]]) if closed else moved


def slopes_at(solution: cnf.Solution, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Value (P,) and gradient (P, 2) of the field."""
    with torch.no_grad():
        return solution(points)[:, 0], solution.apply(r"\nabla d", points)
