"""gmsh meshes as domains: physical groups as parts of the boundary and as regions; damaged files in one line each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import cnf
from cnf.errors import CnfError, FileError
from cnf.meshes.gmsh import read_gmsh
from cnf.pde.domains import Outline, Solid, describe, domain_from, read_mesh_domain, region_names
from tests.pde.domains.gmsh_files import brick, plate, write

both_versions = pytest.mark.parametrize("version", [2, 4])


@both_versions
def test_plate(tmp_path: Path, version: int):
    """A plate with a square hole: area 7, parts by the groups of lines, regions by the groups of triangles."""
    path = write(tmp_path / "plate.msh", plate(), version)
    domain = read_mesh_domain(path, scale=2)
    assert isinstance(domain, Outline) and domain.volume == pytest.approx(28)
    for part, length in {"left": 4, "rim": 8, "outer wall": 20}.items():
        assert domain.boundary_measure(part) == pytest.approx(length)
    assert (domain.boundary_points(20, part="left").points[:, 0] == 0).all()
    assert set(region_names(path)) == {"steel", "wood"}
    steel = read_mesh_domain(path, only=["steel"])
    assert steel.volume == pytest.approx(4) and steel.lower == pytest.approx((2, 0))
    assert steel.boundary_measure("outer wall") == pytest.approx(6)
    assert domain_from(describe(domain)) == domain
    with pytest.raises(CnfError, match=r"no group is called 'stel'; known are .*Did you mean 'steel'"):
        read_mesh_domain(path, only=["stel"])


@both_versions
def test_brick(tmp_path: Path, version: int):
    """A cube of tetrahedra: its bottom by name, its lower half as a region."""
    path = write(tmp_path / "brick.msh", brick(), version)
    cube = read_mesh_domain(path)
    assert isinstance(cube, Solid) and cube.volume == pytest.approx(1)
    assert cube.boundary_measure("bottom") == pytest.approx(1) and cube.boundary_measure("mantle") == pytest.approx(5)
    assert (cube.boundary_points(30, part="bottom").points[:, 2].abs() < 1e-12).all()
    half = read_mesh_domain(path, only=["lower"])
    assert half.volume == pytest.approx(0.5) and half.upper == pytest.approx((1, 1, 0.5))
    assert domain_from(describe(cube)) == cube


def test_a_round_mesh(tmp_path: Path):
    """A disk of straight edges is a polygon, or a disk if told smooth."""
    written = plate()
    angle, radius = written.points[:, 0] / 4 * 2 * math.pi, 1 + written.points[:, 1]
    written.points = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)
    ring = {name: group for name, group in written.groups.items() if group[0] == 2}
    numbers = np.arange(len(written.points)).reshape(17, 9)
    same = np.arange(len(written.points))
    same[numbers[16]] = numbers[0]  # the ends of the strip meet
    written.groups = {name: (2, same[cells]) for name, (_, cells) in ring.items()}
    path = write(tmp_path / "ring.msh", written, 2)
    polygon, smooth = read_mesh_domain(path), read_mesh_domain(path, smooth=60)
    assert len(polygon._pieces) > 3 and polygon.volume < smooth.volume
    outer, inner = max(smooth._pieces, key=lambda p: p.measure), 2 * math.pi
    assert outer.measure == pytest.approx(3 * inner, rel=1e-3)


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "", "is empty"),
        (lambda t: "solid x", "not a gmsh file"),
        (lambda t: t.replace(" 0 8\n", " 1 8\n"), "is binary"),
        (lambda t: t.replace("2.2 0", "1.0 0").replace("4.1 0", "3.0 0"), "has version"),
        (lambda t: t[: t.index("$Elements")], r"no section \$Elements"),
        (lambda t: t.replace("$Nodes\n", "$Nodes\n9"), "cut short|whole"),
        (lambda t: t.replace("$Elements\n", "$Elements\n9"), "cut short"),
        (lambda t: t.replace("\n8 0.0", "\n8 nan", 1).replace("\n0.0 0.25", "\nnan 0.25", 1), "not finite"),
        (lambda t: t.replace("$EndElements", "x\n$EndElements"), "not a number"),
        (lambda t: t.replace("0.0", "0.0.0", 1), "not a number"),
    ],
)  # fmt: skip
def test_damaged(tmp_path: Path, version: int, change, message: str):
    """Empty, other, binary, cut short, too long, not finite: one line that names the file."""
    path = write(tmp_path / "a.msh", plate(), version)
    path.write_text(change(path.read_text()))
    with pytest.raises(FileError, match=message) as caught:
        read_mesh_domain(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_refused(tmp_path: Path):
    """Elements that are there twice, nodes that are not there, types without corners, huge counts."""
    written = plate()
    name, (dimension, cells) = "wood", written.groups["wood"]
    text = written.version2()
    written.groups[name] = (dimension, np.concatenate([cells, cells, cells]))
    with pytest.raises(CnfError, match="more than two elements"):
        read_mesh_domain(write(tmp_path / "a.msh", written, 2))
    for old, new, message in [
        (" 2 2 5 5 ", " 5 2 5 5 ", "type 5 are not read|cut short"),
        ("\n7 0.0", "\n99999 0.0", "node that is not there"),
        ("\n8 ", "\n7 ", "same number"),
        ("$Nodes\n", "$Nodes\n99999999999999 ", "cut short"),
    ]:
        (tmp_path / "b.msh").write_text(text.replace(old, new, 1))
        with pytest.raises(FileError, match=message):
            read_gmsh(tmp_path / "b.msh")


def test_in_a_problem(tmp_path: Path):
    """Conditions on physical groups; u = x^2 - y^2 with its normal derivative on the left, by patches."""
    write(tmp_path / "plate.msh", plate(), 4)
    equations = [
        {"on": "interior", "equation": r"\Delta u = 0"},
        {"on": "rim, outer wall", "equation": "u = x^2 - y^2"},
        {"on": "left", "equation": r"\partial_n u = 2 x n_x - 2 y n_y"},
    ]
    problem = cnf.Problem(
        "x y",
        domain={"type": "mesh", "file": "plate.msh"},
        equations=equations,
        exact={"u": "x^2 - y^2"},
        solve={"method": "patches", "target": 1e-8},
        folder=tmp_path,
    )
    answer = problem.solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-6


@pytest.mark.slow
def test_regions_in_a_problem(tmp_path: Path):
    """Heat through wood (k = 1) and steel (k = 10) by their groups: u = 10 (x - 2) and x - 2, one flux of 10."""
    write(tmp_path / "plate.msh", plate(), 4)
    mesh = {"type": "mesh", "file": "plate.msh"}
    known = {"steel": "x - 2", "wood": "10 (x - 2)"}
    problem = cnf.Problem(
        "x y",
        domain=mesh,
        regions={name: {**mesh, "only": [name]} for name in known},
        parameters={"k": {"steel": 10, "wood": 1}, "g": known},
        equations={"interior": r"\nabla\cdot(k \nabla u) = 0", "boundary": "u = g"},
        exact={"u": known},
        solve={"method": "patches", "target": 1e-8},
        folder=tmp_path,
    )
    answer = problem.solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-7
