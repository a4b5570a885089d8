"""Late: public names of a package that are imported when somebody first asks for them.

torch takes more than a second to import and SymPy half of one: who asks for `cnf --help`, or writes a file with a
mistake in its entries, should not wait for either. A package lists its names and where they come from; everything else
about it stays as if they had been imported at its top.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec


@contextmanager
def whole_imports() -> Iterator[None]:
    """Ctrl-C waits until what is imported here is there whole: half of NumPy cannot be imported a second time."""
    before, heard = signal.getsignal(signal.SIGINT), []
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def late_names(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; `origins` says which module has a name.

    Modules of the package are found as well, as they are where everything is imported at the top.
    """

    def find(name: str) -> object:
        own = f"{package}.{name}"
        if name not in origins and (name.startswith("_") or find_spec(own) is None):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin = origins.get(name, own)
        module = import_module(origin)
        found = module if origin == own else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: sorted({*vars(sys.modules[package]), *origins})


def from_modules(names: Mapping[str, str]) -> dict[str, str]:
    """{module: "names of it"} -> {name: module}."""
    return {name: module for module, listed in names.items() for name in listed.split()}
