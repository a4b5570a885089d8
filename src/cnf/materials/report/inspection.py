"""Inspection in words: what physics asks of a material, and how far a fit is from its reference in the highlight.

In: `Physics` of one or two materials and errors. Out: a table and lines for the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnf.materials.fitting.measuring import Inspection, PointErrors
from cnf.materials.reflectance.lobe import LobeErrors
from cnf.materials.reflectance.physics import Physics
from cnf.materials.rendering.metrics import LinearErrors
from cnf.reports.tables import Table


def describe_physics(columns: Sequence[tuple[str, Physics]]) -> str:
    """A table with a column per material; albedos above 1 are marked."""
    some = [physics for _, physics in columns]
    rows: list[list[object]] = [
        ["light and eye swapped, relative error: worst", *(f"{p.reciprocity_worst:.1e}" for p in some)],
        ["    mean", *(f"{p.reciprocity_mean:.1e}" for p in some)],
        ["jump over phi_d at the mirror direction, relative: worst", *(f"{p.mirror_jump_worst:.1e}" for p in some)],
        ["    mean", *(f"{p.mirror_jump_mean:.1e}" for p in some)],
    ]
    for degrees in some[0].incidence:
        rows.append([f"albedo for light at {degrees:g}°, brightest channel", *(show_albedo(p, degrees) for p in some)])
    rows.append(["directions at which the model is below 0", *(show_share(p.negative_share) for p in some)])
    return Table(["physics", *(title for title, _ in columns)], rows).text()


def show_albedo(physics: Physics, degrees: float) -> str:
    value = max(physics.albedo_at(degrees))
    return f"{value:.4f}" + (" ABOVE 1" if value > 1 and physics.makes_energy else "")


def list_albedos(physics: Physics, angles: Sequence[float]) -> str:
    return ", ".join(f"{max(physics.albedo_at(angle)):.3f}" for angle in angles)


def show_share(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.2g} %"


def describe_lobe(lobe: LobeErrors) -> str:
    return (
        f"within 4° of the mirror direction: relative error of reflectance {lobe.median:.1e} (median), {lobe.mean:.1e} "
        f"(mean); peak {lobe.peak_ratio:.3f} times the reference's, {lobe.peak_worst:.3f} at worst"
    )


def describe_linear(linear: LinearErrors) -> str:
    return f"light of the picture, not clipped: relative error {linear.l2:.1e} (L2), {linear.l1:.1e} (L1)"


def describe_facing(errors: PointErrors) -> str:
    return (
        f"under a light that faces the viewer: PSNR {errors.facing_psnr:.2f} dB, SSIM {errors.facing_ssim:.4f}; light, "
        f"not clipped: relative error {errors.facing_linear_l2:.1e} (L2)"
    )


def describe_inspection(found: Inspection) -> str:
    """A few lines for whoever has just fitted a material; the table is that of `cnf material inspect`."""
    fit, reference = found.fitted, found.reference
    lines = [] if found.lobe is None else [describe_lobe(found.lobe)]
    against = "" if reference is None else f" (reference {reference.reciprocity_mean:.0e})"
    jumps = "" if reference is None else f" (reference {reference.mirror_jump_mean:.0e})"
    lines.append(
        f"light and eye swapped: mean relative error {fit.reciprocity_mean:.1e}{against}; jump at the mirror direction "
        f"{fit.mirror_jump_mean:.1e}{jumps}"
    )
    angles = [fit.incidence[0], fit.incidence[len(fit.incidence) // 2], fit.incidence[-1]]
    line = f"albedo for light at {', '.join(f'{a:g}°' for a in angles)}: {list_albedos(fit, angles)}"
    line += "" if reference is None else f" (reference {list_albedos(reference, angles)})"
    lines.append(line + ("; ABOVE 1: it makes energy" if fit.makes_energy else ""))
    if fit.negative_share is not None:
        lines[-1] += f"; below 0 before clamping at {show_share(fit.negative_share)} of the directions"
    return "\n".join(lines)
