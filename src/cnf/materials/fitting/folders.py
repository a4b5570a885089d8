"""Materials, folders: a fit kept on disk, and read back whole.

In: a `Fit`. Out: a folder with the model (model.pt), all settings and numbers (fit.json), the training (course.csv),
the conditions with what the model makes of them (conditions.csv) and, for constrained methods, certificate.txt. Reading
rebuilds the `Fit`; its certificate is measured anew, not believed.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cnf
from cnf.errors import CnfError, FileError
from cnf.files import as_csv, as_path, hash_file, read_text, write_text
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import as_material, load_model, save_model
from cnf.materials.fitting.measuring import Inspection
from cnf.materials.fitting.methods import count_parameters, find_method, in_double
from cnf.materials.fitting.sampling import Samples
from cnf.materials.reflectance.angles import cosines, decode, encode
from cnf.materials.reflectance.material import check_name
from cnf.reports.results import publish
from cnf.training import History

MODEL, SUMMARY, COURSE, CONDITIONS, CERTIFICATE = (
    "model.pt",
    "fit.json",
    "course.csv",
    "conditions.csv",
    "certificate.txt",
)
PICTURES = ("render.png", "lobes.png", "curve.png")  # of a fit, by those who draw them
ANGLES = ("theta_h_degrees", "theta_d_degrees", "phi_d_degrees")
MEASURED, FITTED = (tuple(f"{what}_{c}" for c in "rgb") for what in ("measured", "fitted"))
VERSION = 1
LARGEST = 2**26  # bytes of a text file


@dataclass(frozen=True)
class Source:
    """What a fit was made from: a file or words such as "ggx:gold:0.1", and the name within an archive."""

    path: str
    name: str | None = None
    contents: str = ""  # of the file, in short, if they matter to whoever keeps the fit


@dataclass(frozen=True)
class KeptFit:
    """A fit with where it came from and what was measured of it, such as "psnr"."""

    fit: Fit
    source: Source
    numbers: dict[str, float | None]


@dataclass(frozen=True)
class ConditionCheck:
    """The conditions of a fit and what it makes of them, through the same path as any query of its reflectance.

    `relative`, (M,): the worst channel's error over the measured value, or over the median of all values above 0 where
    that is larger: an error over a reflectance of nearly nothing would say nothing.
    """

    angles: Tensor  # (M, 3) radians
    measured: Tensor  # (M, 3)
    fitted: Tensor  # (M, 3)
    relative: Tensor

    @property
    def worst(self) -> float:
        return float(self.relative.max())

    @property
    def residual(self) -> float:
        """The worst |difference of log(1 + f)|, over its value or over the mean of all where that is larger."""
        wanted = torch.log1p(self.measured)
        off = (torch.log1p(self.fitted) - wanted).abs()
        return float((off / wanted.clamp_min(float(wanted.mean()) or 1.0)).max())

    def within(self, tolerance: float) -> bool:
        """Whether queries meet the conditions as closely as a certificate is asked to."""
        return self.residual <= tolerance


def check_conditions(fit: Fit) -> ConditionCheck:
    """Ask for the conditions as anybody would: `as_material(fit)` at their angles."""
    angles = decode(fit.conditions.points.double())
    measured = torch.expm1(fit.conditions.logs.double())
    fitted = as_material(fit).reflectance(angles).double()
    lit = measured[measured > 0]
    relative = (fitted - measured).abs() / measured.clamp_min(float(lit.median()) if len(lit) else 1.0)
    return ConditionCheck(angles, measured, fitted, relative.amax(dim=1))


def is_fit(folder: object) -> bool:
    """Whether the folder holds a fit."""
    try:
        return (as_path(folder) / SUMMARY).is_file()
    except OSError:
        return False


def save_fit(
    fit: Fit,
    folder: object,
    source: Source,
    numbers: Mapping[str, float | None],
    inspection: Inspection | None = None,
) -> list[Path]:
    """Write the fit; the folder is complete or as it was before, and nothing of an earlier fit stays in it.

    >>> small = cnf.materials.Settings(samples=2000, epochs=1, batch=1000, conditions=10, parameters=1500)
    >>> fit = cnf.materials.fit_material(cnf.materials.read_material("ggx:gold:0.3"), "kernel-siren", small)
    >>> source = cnf.materials.fitting.folders.Source("ggx:gold:0.3")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = cnf.materials.save_fit(fit, f"{folder}/gold", source, {"psnr": 31.5})
    ...     cnf.materials.load_fit(f"{folder}/gold").numbers["psnr"]
    31.5
    """
    check = check_conditions(fit)
    texts = {COURSE: _course_text(fit.course), CONDITIONS: _conditions_text(check)}
    if fit.certificate is not None:
        texts[CERTIFICATE] = f"{fit.certificate}\n"
    with publish(folder, "fit", (CERTIFICATE, *PICTURES)) as results:
        place = results.folder
        save_model(fit.model, place / MODEL)
        summary = _summary(fit, source, numbers, check)
        summary |= {"model": hash_file(place / MODEL), "run": asdict(results.run)}
        if inspection is not None:
            summary["inspection"] = _finite_all(inspection.to_dict())
        texts[SUMMARY] = json.dumps(summary, indent=2, allow_nan=False) + "\n"
        written = [place / MODEL, *(write_text(place / name, text) for name, text in texts.items())]
    return results.published(written)


def load_fit(folder: object) -> KeptFit:
    """Read what `save_fit` wrote; the certificate is that of a fresh solve.

    >>> cnf.materials.load_fit("missing")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    place = as_path(folder)
    if not is_fit(place):
        raise FileError(f"{place} holds no fit: there is no {SUMMARY} in it; make one with cnf material fit")
    try:
        summary = json.loads(read_text(place / SUMMARY, LARGEST))
        conditions = _read_conditions(place / CONDITIONS)
        method = find_method(summary["method"], len(conditions))
        settings = Settings(**{"on_nodes": "no", **summary["settings"]})  # fits that do not say it knew no other way
        name, label = check_name(summary["name"]), str(summary["label"])
        given = summary["source"]
        source = Source(str(given["path"]), given["name"], str(given.get("contents", "")))
        numbers = {str(key): None if v is None else float(v) for key, v in summary["numbers"].items()}
        course = _read_course(place / COURSE, str(summary["stopped"]))
        expected, seconds = int(summary["parameters"]), float(summary["seconds"])
        digest = str(summary["model"])
    except FileError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
        CnfError,
        csv.Error,
    ) as error:
        raise FileError(
            f"the fit in {place} is damaged or of another version ({type(error).__name__}); fit again"
        ) from None
    model = load_model(place / MODEL, method.constrained)
    if count_parameters(model) != expected or hash_file(place / MODEL) != digest:
        raise FileError(f"{place / MODEL} does not belong to its {SUMMARY}: files of two fits are mixed; fit again")
    model = in_double(model, conditions)  # earlier versions kept some in float32
    certificate = model.solve().certificate if isinstance(model, cnf.ConstrainedField) else None
    fit = Fit(name, label, method, settings, model, conditions, course, certificate, seconds)
    return KeptFit(fit, source, numbers)


def _summary(fit: Fit, source: Source, numbers: Mapping[str, float | None], check: ConditionCheck) -> dict:
    return {
        "kind": "material fit",
        "version": VERSION,
        "name": fit.name,
        "label": fit.label,
        "method": fit.method.name,
        "title": fit.method.title,
        "source": {key: value for key, value in asdict(source).items() if key != "contents" or value},
        "settings": asdict(fit.settings),
        "parameters": fit.parameters,
        "seconds": fit.seconds,
        "last_logged_step": fit.course.step[-1] if fit.course.step else None,
        "stopped": fit.course.stopped,
        "loss": _finite(fit.course.loss[-1]) if fit.course.loss else None,
        "conditions": len(fit.conditions),
        "worst_relative_error_at_conditions": _finite(check.worst),  # as queried, and so the next
        "worst_relative_residual_at_conditions": _finite(check.residual),
        "numbers": {name: _finite(value) for name, value in numbers.items()},
        "certificate": None if fit.certificate is None else fit.certificate.to_dict(),
    }


def _finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def _finite_all(value: Any) -> Any:
    """The same for all numbers of plain data."""
    if isinstance(value, dict):
        return {key: _finite_all(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_all(part) for part in value]
    return _finite(value) if isinstance(value, float) else value


def _course_text(course: History) -> str:
    rows = zip(course.step, course.loss, course.residual, course.seconds, strict=True)
    return _as_csv(("step", "loss", "worst_relative_residual", "seconds"), rows)


def _conditions_text(check: ConditionCheck) -> str:
    columns = torch.cat([torch.rad2deg(check.angles), check.measured, check.fitted, check.relative[:, None]], dim=1)
    return _as_csv((*ANGLES, *MEASURED, *FITTED, "relative_error"), columns.tolist())


def _as_csv(header: Sequence[str], rows: Iterable[Sequence[float]]) -> str:
    """All digits; an empty cell stands for NaN."""
    return as_csv(header, ([None if math.isnan(value) else value for value in row] for row in rows))


def _read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_text(path, LARGEST))))


def _read_course(path: Path, stopped: str) -> History:
    rows = _read_rows(path)
    return History(
        step=[int(row["step"]) for row in rows],
        loss=[float(row["loss"] or "nan") for row in rows],
        residual=[float(row["worst_relative_residual"] or "nan") for row in rows],
        seconds=[float(row["seconds"]) for row in rows],
        stopped=stopped,
    )


def _read_conditions(path: Path) -> Samples:
    rows = _read_rows(path)
    if not rows:
        raise FileError(f"{path} has no conditions; fit again")
    values = torch.tensor([[float(row[key]) for key in (*ANGLES, *MEASURED)] for row in rows], dtype=torch.float64)
    angles = torch.deg2rad(values[:, :3])
    return Samples(encode(angles), torch.log1p(values[:, 3:]), cosines(angles)[0].clamp(0, 1))
