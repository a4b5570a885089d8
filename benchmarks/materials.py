"""Materials fitted with exact measurements: every figure that was asked for, beside what is measured here.

    python -m benchmarks.materials [--parts throughput fit quick inference] [--threads 2] [--name chrome]
    python -m benchmarks.materials --parts inference [--methods kernel-grid kernel-siren] [--evaluations 1000000]

The material is one of the packed networks in the folder of the environment variable CNF_DATA ("NBRDF of MERL chrome"),
or, without that folder, a generated metal. Throughput compares one training step (loss and gradients; batch 5000, 100
conditions, 200,000 parameters) with the method as research code writes it: for each basis function the encoder runs on
the whole batch and on the anchor repeated as often. That takes too long and too much memory for all functions, so a few
are timed, side by side with ours, and scaled to all. Inference: a million evaluations of every method, on one thread
and on all, seconds by the clock and of the processor. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

import cnf
from benchmarks.timing import compare
from cnf.errors import CnfError, CnfWarning
from cnf.materials.fitting.conditions import place_conditions
from cnf.materials.fitting.fit import QUICK, Fit, Settings, fit_material, measure_loss
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.methods import METHODS, find_method
from cnf.materials.fitting.sampling import Samples, draw_samples, draw_valid, uniform_angles
from cnf.materials.reflectance import GGX, Material, decode, read_material
from cnf.materials.rendering.environments import studio
from cnf.materials.rendering.stage import Stage
from cnf.reports.tables import Table

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = "brdf/nbrdf_merl100.npz"
METHOD = "kernel-siren"
BATCH, CONDITIONS, PARAMETERS = 5000, 100, 200_000
FASTER = 25.0  # asked: times
MINUTES, SECONDS = 15.0, 90.0  # asked: of a fit at the paper's size, and of a quick one
RESIDUAL = 1e-10  # asked: worst of all logged steps
EVALUATIONS, INFERENCE = 1_000_000, 3.0  # asked: seconds of the way that queries take by default, on all threads
EVALUATED = ("kernel-grid", "kernel-siren", "kernel-ffn", "nbrdf", "ffn", "siren")
PARTS = ("throughput", "fit", "quick", "inference")


@dataclass(frozen=True)
class Figure:
    """One number asked for: at most `asked`, or at least, as `bound` says."""

    what: str
    measured: float
    asked: float | None = None  # None: nothing was asked, shown for comparison
    bound: str = "at most"

    @property
    def met(self) -> str:
        if self.asked is None:
            return ""
        return (
            "yes" if (self.measured <= self.asked if self.bound == "at most" else self.measured >= self.asked) else "NO"
        )


def find_material(name: str) -> Material:
    """A packed network, or a generated metal where there are no data."""
    folder = Path(os.environ.get("CNF_DATA") or ROOT.parent / "shared" / "data")
    if (folder / NETWORKS).is_file():
        return read_material(folder / NETWORKS, name)
    print(f"no {NETWORKS} in {folder} (CNF_DATA): a generated metal is used")
    return GGX("chrome", 0.1)


# Throughput


def build_field(conditions: Samples) -> cnf.ConstrainedField:
    field = find_method(METHOD, len(conditions)).build(conditions, PARAMETERS, 0, 1e-5)
    assert isinstance(field, cnf.ConstrainedField)
    return field


def step_of_ours(field: cnf.ConstrainedField, batch: Samples) -> tuple[float, list[Tensor | None]]:
    """As `cnf.materials.fitting.fit.train` does it."""
    values = field.solve().in_precision(torch.float32)(batch.points)
    return _gradients(field, measure_loss(values.to(batch.points.dtype), batch, "weighted"))


def step_pair_by_pair(
    field: cnf.ConstrainedField, conditions: Samples, batch: Samples, functions: int
) -> tuple[float, list[Tensor | None]]:
    """The encoder at all pairs of points and anchors, function by function; the first `functions` of them."""
    basis = field.basis
    assert isinstance(basis, cnf.bases.Kernel) and basis.encoder is not None
    encoder, width = basis.encoder, basis.kernel.length  # type: ignore[union-attr]

    def psi(points: Tensor) -> Tensor:
        columns = []
        for anchor in basis.anchors[:functions]:
            apart = encoder(points) - encoder(anchor.expand(len(points), -1))
            columns.append(torch.exp(-apart.square().sum(dim=1) / (2 * width.square())))  # type: ignore[operator]
        return torch.stack(columns, dim=1)

    matrix = psi(conditions.points)  # (M, n)
    if functions == len(conditions):
        weights = torch.linalg.solve(matrix, conditions.logs)
    else:  # timed only: the solve is of no weight, but the gradient must pass through all of the matrix
        weights = matrix.T @ conditions.logs
    return _gradients(field, measure_loss(psi(batch.points) @ weights, batch, "weighted"))


def _gradients(field: cnf.ConstrainedField, loss: Tensor) -> tuple[float, list[Tensor | None]]:
    trained = [p for p in field.parameters() if p.requires_grad]
    return float(loss.detach()), list(torch.autograd.grad(loss, trained, allow_unused=True))


def check_throughput(asked: argparse.Namespace) -> list[Figure]:
    """One step three ways; conditions in float32 may be missed by more than 1e-5, which is not what is timed."""
    warnings.simplefilter("ignore", CnfWarning)
    material = find_material(asked.name)
    conditions = place_conditions(material, CONDITIONS)
    single = conditions.to(torch.float32)
    mixed, plain = build_field(conditions), build_field(single)
    batch = draw_samples(material, BATCH).to(torch.float32)
    few = Samples(batch.points[:100], batch.logs[:100], batch.cosines[:100])
    (ours, own), (naive, other) = step_of_ours(plain, few), step_pair_by_pair(plain, single, few, CONDITIONS)
    largest = max(float(g.abs().max()) for g in other if g is not None)
    off = max(float((a - b).abs().max()) for a, b in zip(own, other, strict=True) if a is not None and b is not None)
    print(
        f"  100 points: loss {ours:.6f}, pair by pair {naive:.6f}; gradients differ by {off / largest:.1e}", flush=True
    )
    seconds = compare(
        {
            "mixed": lambda: step_of_ours(mixed, batch),
            "plain": lambda: step_of_ours(plain, batch),
            "pairs": lambda: step_pair_by_pair(plain, single, batch, asked.functions),
        },
        asked.rounds,
    )
    whole = seconds["pairs"] * CONDITIONS / asked.functions
    times = CONDITIONS / asked.functions
    print(f"  pair by pair: {seconds['pairs']:.2f} s for {asked.functions} functions, times {times:g}", flush=True)
    return [
        Figure("a step, all in float32: seconds", seconds["plain"]),
        Figure("a step, conditions in float64 (as fitted): seconds", seconds["mixed"]),
        Figure("a step pair by pair in float32, scaled: seconds", whole),
        Figure("times faster, all in float32", whole / seconds["plain"], FASTER, "at least"),
        Figure("times faster, conditions in float64", whole / seconds["mixed"], FASTER, "at least"),
    ]


# Fits


def check_fit(asked: argparse.Namespace) -> list[Figure]:
    return measure_fit("paper's size", Settings(), asked, 60 * MINUTES)


def check_quick(asked: argparse.Namespace) -> list[Figure]:
    return measure_fit("quick", QUICK, asked, SECONDS)


def measure_fit(what: str, settings: Settings, asked: argparse.Namespace, limit: float) -> list[Figure]:
    if asked.samples is not None:
        settings = replace(settings, samples=asked.samples)
        what += f", {asked.samples} samples only"
    material = find_material(asked.name)
    fit = fit_material(material, METHOD, settings, tell)
    errors = Stage.of(material, studio(), asked.size).show(as_material(fit, reference=material))[1]
    assert fit.certificate is not None
    print(f"  {what}: {fit.certificate.summary()}", flush=True)
    what = f"{what}, {fit.label}"
    return [
        Figure(f"{what}: seconds", fit.seconds, limit if asked.samples is None else None),
        Figure(f"{what}: worst residual of {len(fit.course.step)} logged steps", max(fit.course.residual), RESIDUAL),
        Figure(f"{what}: residual of the certificate", fit.certificate.worst, RESIDUAL),
        Figure(f"{what}: parameters", fit.parameters),
        Figure(f"{what}: PSNR of a rendered sphere", errors.psnr),
    ]


def tell(step: int, steps: int, loss: float, residual: float | None) -> None:
    if step % 200 == 0:
        print(f"  step {step} of {steps}: loss {loss:.4f}, worst residual {residual:.1e}", flush=True)


# Inference


def untrained_fit(material: Material, method: str) -> Fit:
    """A model of full size after a single step: training does not change what an evaluation takes."""
    return fit_material(material, method, Settings(samples=1000, epochs=1, batch=1000))


def check_inference(asked: argparse.Namespace) -> list[Figure]:
    """Valid directions, as `as_material` answers them; conditions among them, and how far they are missed."""
    material, count = find_material(asked.name), asked.evaluations
    angles = draw_valid(material, count - CONDITIONS, uniform_angles, torch.Generator().manual_seed(0))
    figures = []
    for method in asked.methods:
        torch.set_num_threads(1)
        fit = untrained_fit(material, method)
        fitted, given = as_material(fit), torch.cat([angles, decode(fit.conditions.points)])
        for threads in sorted({1, asked.threads}):
            torch.set_num_threads(threads)
            fitted(given[-10_000:])
            started, busy = time.perf_counter(), time.process_time()
            found = fitted(given)[-CONDITIONS:]
            seconds, busy = time.perf_counter() - started, time.process_time() - busy
            what = f"{count} evaluations, {method}, threads: {threads}"
            wanted = INFERENCE * count / EVALUATIONS if threads == asked.threads else None
            figures += [Figure(f"{what}: seconds", seconds, wanted), Figure(f"{what}: processor seconds", busy)]
            print(f"  {what}: {seconds:.2f} s by the clock, {busy:.2f} s of the processor", flush=True)
        if fit.certificate is not None:
            missed = float((found.log1p() - fit.conditions.logs).abs().max())
            what = f"{method}, conditions among them: worst |difference of log(1 + f)|"
            figures.append(Figure(what, missed, RESIDUAL))
    return figures


def make_table(figures: Sequence[Figure]) -> str:
    """Measured beside asked."""
    rows = []
    for figure in figures:
        wanted = "-" if figure.asked is None else f"{figure.bound} {figure.asked:.3g}"
        rows.append([figure.what, f"{figure.measured:.4g}", wanted, figure.met])
    return Table(["", "measured", "asked", "met"], rows).text()


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--name", default="chrome", help="of the packed networks")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="of the throughput, interleaved")
    parser.add_argument("--functions", type=int, default=4, help="timed pair by pair, of 100")
    parser.add_argument("--samples", type=int, help="of the fits, for a trial; no time is asked then")
    parser.add_argument(
        "--methods", nargs="+", choices=sorted(METHODS), default=list(EVALUATED), help="of the inference"
    )
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS, help="of the inference")
    parser.add_argument("--size", type=int, default=128, help="of the rendered spheres, pixels")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(asked.threads)
    figures: list[Figure] = []
    checks = {"throughput": check_throughput, "fit": check_fit, "quick": check_quick, "inference": check_inference}
    try:
        for part in asked.parts:
            print(part, flush=True)
            figures += checks[part](asked)
    except CnfError as error:
        parser.exit(1, f"error: {error}\n")
    print(f"\n{make_table(figures)}\n\n{METHOD} unless a line says otherwise, {asked.threads} threads")
    return figures


if __name__ == "__main__":
    main()
