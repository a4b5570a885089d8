"""Modules that moved: every old name imports, is the module that is there now, and disturbs nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys

from cnf.moved import MOVED, MovedPackage

# What README, docs and examples of 0.1 imported.
SHOWN = {
    "cnf.applications.materials": "image_errors prepare_scene",
    "cnf.applications.materials.fitted": "as_material",
    "cnf.applications.materials.fitting": "Settings fit_material",
    "cnf.applications.materials.tone": "exposure_for tone_map",
    "cnf.applications.shapes.generated": "sample_knot",
    "cnf.applications.shapes.reconstruct": "reconstruct",
    "cnf.data": "read_cloud write_mesh PointCloud Mesh prepare_cloud thin",
    "cnf.data.environments": "studio",
    "cnf.data.materials": "read_material GGX Material",
    "cnf.data.materials.angles": "decode",
    "cnf.domains": "Disk Box",
    "cnf.problems": "Problem Answer",
    "cnf.reports.answer": "write_answer",
    "cnf.tuning": "tune_bandwidth tune",
}


def test_every_old_name_is_the_new_module():
    """The very module; a package with old names below it hands on the new module's names."""
    for old, new in MOVED.items():
        found, wanted = importlib.import_module(old), importlib.import_module(new)
        if isinstance(found, MovedPackage):
            assert all(getattr(found, name) is getattr(wanted, name) for name in wanted.__all__), old
        else:
            assert found is wanted, old
        assert wanted.__spec__.name == wanted.__name__ == new


def test_what_was_shown_still_imports():
    for module, names in SHOWN.items():
        for name in names.split():
            assert hasattr(importlib.import_module(module), name), f"from {module} import {name}"


def test_a_fresh_interpreter():
    """`import cnf` stays light: the slices with large tables of formats, and the extras, load when asked for.

    `cnf.shapes.reconstruct` stays the function, whatever is imported under old names before it.
    """
    code = (
        "import sys, cnf, cnf.pde;"
        "heavy = ('cnf.shapes', 'cnf.materials', 'cnf.demo', 'cnf.cli', 'typer', 'rich', 'matplotlib');"
        "found = [name for name in sys.modules if name.startswith(heavy)]; assert not found, found;"
        "import cnf.applications.shapes.reconstruct, cnf.data.materials, cnf.shapes;"
        "assert callable(cnf.shapes.reconstruct) and not hasattr(cnf.shapes, 'materials');"
        "import cnf.demo; assert not hasattr(cnf.demo, 'shapes')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_no_name_is_new_and_old():
    """An old name that exists again would never be looked up in the table."""
    assert not set(MOVED) & set(MOVED.values())
