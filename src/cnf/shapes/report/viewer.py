"""A reconstruction as a page to turn around: its mesh, its points, and how far the one is from the others."""

from __future__ import annotations

from pathlib import Path

from cnf.errors import ConstraintError
from cnf.files import write_text
from cnf.reports.viewer import Scene, make_page
from cnf.shapes.reconstruction.reconstruct import Reconstruction
from cnf.shapes.report.shaded import stand_up


def write_viewer(
    made: Reconstruction, path: Path, up: str = "y", turn: float = 0.0, title: str = "Reconstruction"
) -> Path:
    """The page, one file that needs no other; `up` and `turn` as in the picture."""
    return write_text(path, make_page(make_scene(made, up, turn, title)))


def make_scene(made: Reconstruction, up: str, turn: float, title: str) -> Scene:
    """What the page shows, in the coordinates of the input."""
    from cnf import __version__

    cloud, mesh = made.cloud, made.mesh
    if not len(mesh.faces):
        raise ConstraintError("the mesh has no faces to show")
    colours = cloud.attributes.get("colours")
    points = "points with estimated normals" if cloud.estimated else "points with normals"
    return Scene(
        title=title,
        mesh=mesh,
        points=cloud.to_input(cloud.points),
        point_normals=cloud.normals,
        point_colours=colours if colours is not None and colours.shape[1] == 3 else None,
        values=made.surface.spacing.measure(cloud.from_input(mesh.vertices))[1],
        limit=made.coverage.limit,
        spacing=cloud.spacing * cloud.scale,
        standing=stand_up(up),
        turn=turn,
        lead=f"A surface through {len(cloud):,} {points}",
        verdict=judge(made),
        facts=list_facts(made),
        residuals=[(name, f"{r.absolute:.1e}", f"{r.relative:.1e}") for name, r in made.certificate.residuals.items()],
        notes=list(dict.fromkeys(made.notes)),
        footer=f"cnf {__version__}. Everything on this page is in this one file.",
    )


def judge(made: Reconstruction) -> list[tuple[bool | None, str]]:
    """What holds and what does not, most important first."""
    certificate, mesh = made.certificate, made.mesh
    kept = f"All {certificate.conditions:,} conditions hold" if certificate.exact else "Conditions are missed"
    holds = f"{kept}: worst relative residual {certificate.worst:.1e} (tolerance {certificate.tolerance:g})"
    closed = (
        (True, "Watertight")
        if mesh.is_watertight
        else (None, f"Open: {mesh.boundary_edges:,} edges on rims" if mesh.boundary_edges else "Not watertight")
    )
    share = 100 * made.unsupported_area
    supported = (
        (True, "Points speak for all of the surface")
        if not share
        else (False, f"{share:.2g} % of the surface is a guess: no point is near (red under Distance)")
    )
    return [(certificate.exact, holds), closed, supported]


def list_facts(made: Reconstruction) -> list[tuple[str, str]]:
    """Numbers of the summary, each with its name."""
    mesh, exact = made.mesh, made.settings["normals"] == "exact"
    free = len(made.cloud.doubtful)
    name = f"worst |∇d − n| (not at {free:,} free ones)" if free else "worst |∇d − n|"
    normals = (name, f"{made.normal_error:.1e}") if exact else ("worst angle", f"{made.angle:.1f}°")
    found = made.sharpness
    sharp = [("on sharp edges", f"{found.edges:,}"), ("on corners", f"{found.corners:,}")] if found else []
    return [
        ("points", f"{len(made.cloud):,}"),
        ("worst |d| at them", f"{made.value_error:.1e}"),
        normals,
        ("vertices", f"{len(mesh.vertices):,}"),
        ("faces", f"{len(mesh.faces):,}"),
        *sharp,
        ("parts", f"{mesh.components}"),
        ("Euler number", f"{mesh.euler}"),
        ("farthest from points", f"{made.largest_distance_spacings:.1f} spacings"),
        ("unsupported area", f"{100 * made.unsupported_area:.2g} %"),
        ("solver", str(made.settings["solver"])),
        ("grid nodes", str(made.settings["resolution"])),
        ("time", f"{made.total_seconds:.1f} s"),
    ]
