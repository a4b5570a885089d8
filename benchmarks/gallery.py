"""The gallery: every problem file solved as it stands, its error beside its estimate, and the table in the docs.

    python -m benchmarks.gallery [--only wave heat] [--write]

With --write, the numbers of the table in docs/problems.md are replaced by what was found; what a file shows is left as
it is written there. One thread; processor seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import cnf
from benchmarks import nonlinear_references as nonlinear
from benchmarks.engineering_problems import corners, elastic, flow
from benchmarks.peer_scripts.nonlinear_problems import cole_hopf
from benchmarks.space_patches import series
from cnf.files import write_text

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "examples" / "pde"
DOCS = ROOT / "docs" / "problems.md"
POINTS = 2000


def uneven(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The permeability of darcy.toml."""
    return np.exp(1.2 * np.cos(5 * x + 3 * y + 1) + 0.8 * np.cos(9 * y - 4 * x) + 0.6 * np.sin(11 * x - 2 * y))


# Solutions that no formula in the file gives: fits of the boundary, one spectral element, a series, Fourier's,
# integrators; see there how good they are.
REFERENCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "allen_cahn": nonlinear.phases,
    "burgers": cole_hopf,
    "cantilever": elastic.bent_at,
    "cavity": flow.stirred_at,
    "cube": lambda points: series(points)[:, None],
    "darcy": lambda points: flow.seepage_at(points, uneven),
    "lotka_volterra": nonlinear.predators_and_prey,
    "flame_front": nonlinear.flame,
    "lshape": lambda points: corners.reference(False, points),
    "pendulum": nonlinear.pendulum,
    "van_der_pol": nonlinear.relaxing,
}


# Fields of which only a few numbers are known: by how much these are off, by channel.
MEASURES: dict[str, Callable[[cnf.Answer], dict[str, float]]] = {"driven_cavity": nonlinear.off_centre_lines}


@dataclass(frozen=True)
class Row:
    """What came out for a file."""

    conditions: int
    error: float  # relative L2, the worst channel
    estimate: float
    exact: bool
    seconds: float


def errors_of(name: str, answer: cnf.Answer) -> dict[str, float]:
    """Relative L2 error by channel, against the formula in the file or what REFERENCES or MEASURES know."""
    if name in MEASURES:
        return MEASURES[name](answer)
    if name not in REFERENCES:
        return dict(answer.errors or {})
    points = answer.problem.domain.random(POINTS, torch.Generator().manual_seed(1))
    wanted = torch.from_numpy(REFERENCES[name](points.numpy()))
    with torch.no_grad():
        off = (answer(points)[:, : wanted.shape[1]] - wanted).norm(dim=0) / wanted.norm(dim=0)
    return dict(zip(answer.problem.space.channels, off.tolist(), strict=False))


def measure(name: str) -> Row:
    started = time.process_time()
    answer = cnf.Problem.read(GALLERY / f"{name}.toml").solve()
    seconds = time.process_time() - started
    error = max(errors_of(name, answer).values())
    return Row(answer.conditions, error, float(answer.estimate), bool(answer.certificate.exact), seconds)


def rewritten(text: str, rows: Mapping[str, Row]) -> str:
    """The docs with the numbers of these files replaced; a file without a line is an error."""
    lines, left = text.splitlines(), dict(rows)
    for k, line in enumerate(lines):
        if not line.startswith("| `") or not line.split("`")[1].endswith(".toml"):
            continue
        name = line.split("`")[1].removesuffix(".toml")
        if name in left:
            row, (shown, *_) = left.pop(name), line.split(" | ")[1:]
            numbers = f"{row.conditions} | {row.error:.0e} | {row.estimate:.0e}"
            lines[k] = f"| `{name}.toml` | {shown} | {numbers} |"
    if left:
        raise SystemExit(f"no line in the table of the gallery for {', '.join(left)}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    names = sorted(path.stem for path in GALLERY.glob("*.toml"))
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    reader.add_argument("--write", action="store_true", help="replace the numbers in docs/problems.md")
    asked = reader.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", cnf.errors.CnfWarning)
    rows: dict[str, Row] = {}
    print(f"{'':<22} {'conditions':>10} {'error':>8} {'estimate':>9} {'':>9} {'s':>6}")
    for name in asked.only:
        row = rows[name] = measure(name)
        state = "exact" if row.exact else "not exact"
        numbers = f"{row.conditions:10d} {row.error:8.1e} {row.estimate:9.1e} {state:>9} {row.seconds:6.1f}"
        print(f"{name:<22} {numbers}", flush=True)
    if asked.write:
        write_text(DOCS, rewritten(DOCS.read_text(), rows))


if __name__ == "__main__":
    main()
