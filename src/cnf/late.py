"""Late: public names of a package that are imported when somebody first asks for them.

torch takes more than a second to import and SymPy half of one: who asks for `cnf --help`, or writes a file with a
mistake in its entries, should not wait for either. A package lists its names and where they come from; everything else
about it stays as if they had been imported at its top.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def late_names(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; `origins` says which module has a name, or is what it names."""

    def find(name: str) -> object:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(origins[name])
        found = module if origins[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: sorted({*vars(sys.modules[package]), *origins})


def from_modules(names: Mapping[str, str]) -> dict[str, str]:
    """{module: "names of it"} -> {name: module}."""
    return {name: module for module, listed in names.items() for name in listed.split()}
