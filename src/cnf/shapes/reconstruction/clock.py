"""Seconds and memory of the stages of a reconstruction."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import suppress

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # what the C library calls them
LARGE = 1 << 23  # bytes of arrays that are returned to the system at once


class Clock:
    """Seconds of each stage, wall time; what a stage has freed goes back to the system when it ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, name: str) -> None:
        """A stage ends here; one that comes again, in another part, adds up."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
        give_back_memory()

    def stop_all(self, pieces: dict[str, float]) -> None:
        """Pieces of work end here, which took so many seconds of each stage in all, one after the other or together."""
        now = time.perf_counter()
        share = (now - self._last) / max(sum(pieces.values()), 1e-9)
        for name, seconds in pieces.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + share * seconds
        self._last = now
        give_back_memory()


def give_back_memory() -> None:
    """Freed memory that the C library keeps for later: of 200,000 points it was a fifth of all there was."""
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # a C library that has no such call
            ctypes.CDLL(None).malloc_trim(0)


def keep_memory() -> None:
    """Let the C library keep freed memory up to so much until a stage ends, for the next operation.

    Else every larger array is asked of the system and returned at once: of 10,000 points that was a third of a solve.
    What the environment says of it stands.
    """
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        with suppress(AttributeError, OSError):
            library = ctypes.CDLL(None)
            library.mallopt(MMAP_THRESHOLD, LARGE)
            library.mallopt(TRIM_THRESHOLD, 2 * LARGE)


def peak_memory() -> float:
    """Largest memory of this process so far, in GB; NaN where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 1e9 if sys.platform == "darwin" else used / 1e6
