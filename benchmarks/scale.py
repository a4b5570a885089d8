"""A plan on paper: what a billion points, or a hundred million conditions, would take, before anybody has run them.

    python -m benchmarks.scale [--rates benchmarks/measured_rates.json]

In comes a small file of what was measured: processor seconds and bytes per point of every step of the work, the cost
of giving out a piece, of a network, of a disk. Out goes a table: the graph of the work for so many points, its pieces
given out in order to so many workers as they become free, each waiting for its data. docs/scale.md has what it prints.
"""

from __future__ import annotations

import argparse
import heapq
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RATES = Path(__file__).parent / "measured_rates.json"
WORKERS = (2, 16, 64, 256, 1024)


@dataclass(frozen=True)
class Network:
    """What lies between the one who gives out work, the workers and their files."""

    latency: float  # seconds for one message
    bandwidth: float  # bytes a second, of each worker
    shared: float  # bytes a second, of the file system that all have in common
    each: float  # seconds of the scheduler for a piece
    start: float  # seconds until a worker can do anything


@dataclass(frozen=True)
class Step:
    """Work that begins when the step before has ended: `pieces` of so many processor seconds, and bytes in and out.

    `serial`: seconds of the one who gives out work, before the pieces; `uneven`: the largest piece over the mean.
    """

    name: str
    pieces: int
    seconds: float
    read: float
    written: float
    serial: float
    uneven: float = 1.0


def simulate(steps: list[Step], workers: int, network: Network) -> dict[str, float]:
    """Seconds by the clock, busy share of the workers, and seconds in which none of them had anything to do.

    List scheduling: each piece goes to the worker that is free first, the largest pieces at first.
    """
    clock, busy, alone = network.start, 0.0, 0.0
    for step in steps:
        rate = min(network.bandwidth, network.shared / min(workers, step.pieces))
        clock, alone = clock + step.serial, alone + step.serial
        free = [clock] * min(workers, step.pieces)
        heapq.heapify(free)
        given = end = clock
        for number in range(step.pieces):
            share = number / max(1, step.pieces - 1)  # sizes fall evenly, from the largest to as much below the mean
            seconds = step.seconds * (step.uneven - 2 * (step.uneven - 1) * share)
            given = max(given + network.each, heapq.heappop(free))
            done = given + 2 * network.latency + seconds + (step.read + step.written) / rate
            busy += seconds
            heapq.heappush(free, done)
            end = max(end, done)
        clock = end
    return {"seconds": clock, "busy": busy / (workers * clock), "alone": alone}


def plan_surface(points: float, rates: dict[str, Any]) -> list[Step]:
    """The steps of `cnf reconstruct --memory`, for so many points."""
    found = []
    for step in rates["steps"]:
        pieces = max(1, round(points / step["points_of_a_piece"]))
        each = points / pieces
        found.append(
            Step(
                name=step["name"],
                pieces=pieces,
                seconds=step["worker_seconds_per_point"] * each,
                read=step["bytes_read_per_point"] * each,
                written=step["bytes_written_per_point"] * each,
                serial=step["parent_seconds_per_point"] * points,
                uneven=step.get("uneven", 1.0),
            )
        )
    return found


def plan_patches(conditions: float, rates: dict[str, Any]) -> list[Step]:
    """Patches of a PDE: local factors, interfaces eliminated from level to level, and back again.

    A front on a level holds the unknowns of a separator: in `dimension` D there are (conditions of it)^((D - 1) / D).
    """
    unknowns = conditions / rates["conditions_of_a_patch"] * rates["interface_unknowns_of_a_patch"]
    patches, dimension = max(1, round(conditions / rates["conditions_of_a_patch"])), rates["dimension"]
    local = rates["patch_seconds"]
    found = [Step("local factors", patches, local, 0.0, rates["patch_bytes"], 0.0)]
    levels, fronts = [], patches // 2
    while fronts >= 1:
        size = rates["separator_factor"] * (unknowns / fronts) ** ((dimension - 1) / dimension)
        levels.append((fronts, size))
        fronts //= 2
    for fronts, size in levels:
        flops, bytes_ = rates["front_flops"] * size**3, 8 * size**2
        found.append(
            Step(f"{fronts} fronts of {size:.0f}", fronts, flops / rates["flops_per_second"], 2 * bytes_, bytes_, 0.0)
        )
    for fronts, size in reversed(levels):
        found.append(Step("back", fronts, 2 * size**2 / rates["flops_per_second"], 8 * size, 8 * size, 0.0))
    return found


def describe(seconds: float) -> str:
    """As people say it."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def print_table(title: str, plans: dict[str, list[Step]], network: Network) -> None:
    """A line for each size, a column for each number of workers."""
    print(f"\n{title}\n")
    print("| | " + " | ".join(f"{workers} workers" for workers in WORKERS) + " | alone |")
    print("|---|" + "---|" * (len(WORKERS) + 1))
    for name, steps in plans.items():
        found = [simulate(steps, workers, network) for workers in WORKERS]
        cells = [f"{describe(one['seconds'])} ({100 * one['busy']:.0f} %)" for one in found]
        print(f"| {name} | " + " | ".join(cells) + f" | {describe(found[0]['alone'])} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=Path, default=RATES)
    given = parser.parse_args()
    rates = json.loads(given.rates.read_text())
    network = Network(**{key: float(value) for key, value in rates["network"].items() if key != "source"})
    sizes = {"200,000": 2e5, "20 million": 2e7, "a billion": 1e9}
    surfaces = {f"{name} points": plan_surface(size, rates["surface"]) for name, size in sizes.items()}
    print_table("Surfaces: time by the clock, and how busy workers are", surfaces, network)
    for step in plan_surface(1e9, rates["surface"]):
        print(f"    {step.name}: {step.pieces} pieces of {step.seconds:.2f} s, alone before {step.serial:.0f} s")
    if "patches" in rates:
        patches = {
            f"{name} conditions": plan_patches(size, rates["patches"])
            for name, size in {"100,000": 1e5, "a hundred million": 1e8}.items()
        }
        print_table("Patches of a PDE", patches, network)


if __name__ == "__main__":
    main()
