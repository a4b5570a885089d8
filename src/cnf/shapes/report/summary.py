"""What a reconstruction came to: a summary in words, the same as JSON, and a shaded picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from cnf.files import write_text
from cnf.shapes.reconstruction.outcome import Outcome
from cnf.shapes.reconstruction.reconstruct import Reconstruction
from cnf.shapes.report.shaded import draw_mesh


def summarise(made: Outcome) -> str:
    """Several lines: certificate, mesh, time and memory."""
    mesh, coverage = made.numbers, made.coverage
    sizes = f"{mesh.vertices} vertices, {mesh.faces} faces"
    closed = "watertight" if mesh.watertight else f"open ({mesh.boundary_edges} edges on rims)"
    parts = f"{mesh.components} part" + ("s" if mesh.components != 1 else "")
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in made.seconds.items() if seconds >= 0.05)
    free = made.free
    where = f" at the {made.points - free} that have one to meet" if free else ""
    normals = (
        f"normals to {made.normal_error:.1e} (worst |grad d - n|){where}"
        if made.settings["normals"] == "exact"
        else f"angle to the given normals up to {made.angle:.1f} degrees (pseudo-normals meet them only roughly)"
    )
    lines = [
        str(made.certificate),
        "",
        f"at the {made.points} points of a shape of size 2: values to {made.value_error:.1e}, {normals}",
        f"mesh: {sizes}, {closed}, {parts}, Euler number {mesh.euler}",
        f"farthest from the points: {coverage.distance:.2g}, or {coverage.spacings:.1f} spacings of "
        f"those there; unsupported: {100 * coverage.unsupported:.2g} % of the area",
        *tell_sharpness(made),
        coverage.say(made.placed),
        f"support {made.support:.4g} (the shape has size 2), {made.evaluations} evaluations of the field",
        f"time: {sum(made.seconds.values()):.1f} s ({stages}); peak memory of the process {made.memory:.2f} GB"
        + ("" if made.settings.get("workers", 1) == 1 else ", its workers not counted"),
    ]
    return "\n".join(lines)


def tell_sharpness(made: Outcome) -> list[str]:
    """One line on sharp edges, if they were asked for."""
    found = made.sharpness
    if found is None:
        return []
    if not found.edges + found.corners:
        return [f"sharp edges: none of {made.settings['sharp']:g} degrees or more found; the mesh is the smooth one"]
    return [
        f"sharp edges: {found.edges} vertices on edges, {found.corners} on corners; the smooth field is up to "
        f"{found.away:.2g} there"
    ]


def describe(made: Outcome) -> dict:
    """The same as plain values."""
    certificate, mesh, coverage = made.certificate, made.numbers, made.coverage
    return {
        "settings": made.settings,
        "certificate": {
            **certificate.to_dict(),
            "worst_value": made.value_error,
            "worst_normal": made.normal_error,
            "worst_angle_degrees": made.angle,
        },
        "mesh": {
            "vertices": mesh.vertices,
            "faces": mesh.faces,
            "watertight": mesh.watertight,
            "components": mesh.components,
            "euler": mesh.euler,
            "area": mesh.area,
            "attributes": list(mesh.attributes),
            "largest_distance": coverage.distance,
            "largest_distance_spacings": coverage.spacings,
            "unsupported_area": coverage.unsupported,
            "unsupported_places": coverage.places,
            **({"sharp": asdict(made.sharpness)} if made.sharpness else {}),
            "unsupported_sizes": (made.placed.scale * coverage.empty).tolist(),
            "beyond_1_5_spacings": _describe_sparse(made),
        },
        "seconds": made.seconds,
        "peak_memory_gb": made.memory,
        "evaluations": made.evaluations,
        "notes": list(made.notes),
    }


def _describe_sparse(made: Outcome) -> dict:
    """What is farther than 1.5 spacings from every point, in coordinates of the input."""
    sparse = made.coverage.sparse
    return {
        "vertices": sparse.vertices,
        "area": sparse.area,
        "area_of_random_points": sparse.chance,
        "more_than_chance": not sparse.by_chance,
        "largest": made.coverage.spacings,
        "farthest": None if sparse.farthest is None else made.placed.to_input(sparse.farthest).tolist(),
    }


def write_summary(made: Outcome, path: Path, record: dict[str, object] | None = None) -> Path:
    """The plain values as JSON, with the record of the run that writes them."""
    text = json.dumps({"run": record, **describe(made)}, indent=2) + "\n"
    return write_text(path, text)


def draw_reconstruction(
    made: Reconstruction, path: Path, up: str = "y", turn: float = 0.0, title: str | None = None
) -> Path:
    """Three shaded views; in colour if the points had colours."""
    colours = made.mesh.attributes.get("colours")
    return draw_mesh(made.mesh, path, title=title, colours=colours, up=up, turn=turn)
