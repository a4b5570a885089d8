"""Timing side by side: the variants take turns, so that a noisy machine slows all of them alike."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping


def compare(
    variants: Mapping[str, Callable[[], object]], rounds: int = 7, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each variant over interleaved rounds, after one warm-up each."""
    for run in variants.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            started = clock()
            run()
            times[name].append(clock() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def peak_memory() -> float:
    """Largest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
