"""Modules that moved, found under the names they had before.

`MOVED` maps an old name to the new one. An old name gives the very module that is there now, so that no class exists
twice. An old name below which other old names lie becomes a package of its own that looks everything up in the new
module: importing something below it must not put a name into the new one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "cnf.applications": "cnf.demo",
    "cnf.applications.materials": "cnf.materials.rendering",
    "cnf.applications.materials.fitted": "cnf.materials.fitting.fitted",
    "cnf.applications.materials.fitting": "cnf.materials.fitting.fit",
    "cnf.applications.materials.tone": "cnf.materials.rendering.tone",
    "cnf.applications.shapes": "cnf.shapes",
    "cnf.applications.shapes.generated": "cnf.shapes.clouds.generated",
    "cnf.applications.shapes.reconstruct": "cnf.shapes.reconstruction.reconstruct",
    "cnf.data": "cnf.shapes",
    "cnf.data.environments": "cnf.materials.rendering.environments",
    "cnf.data.materials": "cnf.materials.reflectance",
    "cnf.data.materials.angles": "cnf.materials.reflectance.angles",
    "cnf.pde.report.vtk": "cnf.reports.vtk",
    "cnf.problems": "cnf.pde.problems",
    "cnf.reports.answer": "cnf.pde.report.folder",
    "cnf.shapes.reconstruction.spacing": "cnf.shapes.clouds.spacing",
    "cnf.shapes.reconstruction.winding": "cnf.shapes.clouds.winding",
}


class MovedFinder(MetaPathFinder, Loader):
    """Finds what `MOVED` names; asked last, so that it costs nothing elsewhere."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=any(name.startswith(f"{fullname}.") for name in MOVED))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.submodule_search_locations is None:
            module = import_module(MOVED[spec.name])
            spec.loader_state = module.__spec__
            return module
        return MovedPackage(spec.name, f"Moved to `{MOVED[spec.name]}`.")

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None and module.__spec__.loader_state is not None:
            module.__spec__ = module.__spec__.loader_state  # the import has put that of the old name there


class MovedPackage(ModuleType):
    """An old package: its names are those of the new module."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(MOVED[self.__name__]), name)


def install() -> None:
    """Let imports of old names find the modules; once."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
