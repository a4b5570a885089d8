"""Memory: how much of it this process may still take."""

from __future__ import annotations

from pathlib import Path

USABLE = 0.8  # of the memory there is
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


def memory_there_is() -> float:
    """Bytes that this process may still take; infinite if nobody says."""
    found = [_available(), _address_space()]
    try:
        most, taken = (path.read_text().strip() for path in LIMITS)
        found.append(float("inf") if most == "max" else float(most) - float(taken))
    except (OSError, ValueError):
        pass
    return USABLE * min(found)


def _available() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return float("inf")


def _address_space() -> float:
    """What a limit on the process leaves."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return float("inf") if most == resource.RLIM_INFINITY else float(most - pages * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        return float("inf")
