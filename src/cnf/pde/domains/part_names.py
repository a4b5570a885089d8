"""Part names: the words by which equations name parts of a domain, and what is said of one that there is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnf.errors import nearest

PARTS = ("interior", "boundary")  # a condition is imposed there by these words
EXCEPT = "boundary except "
REST = "rest"  # the region that is left of the domain
INTERFACE = "interface"


def known_parts(regions: Iterable[str], shapes: Iterable[str], coordinates: Iterable[str]) -> list[str]:
    """What an equation may be on: the words above, regions, shapes with a name, values of coordinates."""
    return [*PARTS, *regions, *shapes, *(f"{name} = ..." for name in coordinates)]


def unknown_part(name: str, known: Sequence[str]) -> str:
    return f"there is no part {name!r} of the domain; known are {', '.join(known)}.{nearest(name, known)}"
