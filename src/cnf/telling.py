"""Telling: what work is at, in a few words, for whoever listens; nothing that is worked out depends on it.

Work deep down (a step of an iteration) says what it does with `tell`; those around it (a window of time, a value of a
parameter) say where that is with `during`. Somebody who wants to know, a progress bar, is `listening`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], object] | None] = ContextVar("listener", default=None)
_around: ContextVar[tuple[str, ...]] = ContextVar("around", default=())


@contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """Have `listener` told what is going on inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def during(what: str) -> Iterator[None]:
    """Put `what` before all that is told inside."""
    token = _around.set((*_around.get(), what))
    try:
        tell()
        yield
    finally:
        _around.reset(token)


def tell(what: str = "") -> None:
    """Say what is done now."""
    listener = _listener.get()
    if listener is not None:
        listener(", ".join([*_around.get(), *([what] if what else [])]))
