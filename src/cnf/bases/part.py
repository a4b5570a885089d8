"""Part: a module that says how to rebuild itself, and how such parts are found by the names of their classes.

A file names parts by their class. Nothing has to be entered anywhere: whatever derives from a contract (`Part`, or
`cnf.solvers.Method`) inside this package, and is final, is known. Classes of a user's own are not, whatever their name.
"""

from __future__ import annotations

from torch import nn

PACKAGE = __name__.partition(".")[0]


class Part(nn.Module):
    """Base of all modules a file can hold: `type(part)(**part.config())` is the same part with other numbers.

    Arguments that are modules keep their names as attributes, so that `basis.kernel` in the state is the `kernel` that
    the basis was made with.
    """

    def config(self) -> dict:
        """Constructor arguments: numbers, strings, tensors, other parts, and lists of these."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to rebuild itself (no config method)")


def is_ours(kind: type) -> bool:
    """Whether a class belongs to this package."""
    return kind.__module__.partition(".")[0] == PACKAGE


def find_final(contract: type) -> dict[str, type]:
    """The final classes of a contract in this package, by name: those that nothing in it derives from."""
    found: dict[str, type] = {}
    waiting = [contract]
    while waiting:
        kind = waiting.pop()
        derived: list[type] = list(filter(is_ours, kind.__subclasses__()))
        waiting += derived
        if not derived and kind is not contract:
            found[kind.__name__] = kind
    return dict(sorted(found.items()))
