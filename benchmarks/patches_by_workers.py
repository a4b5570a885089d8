"""Patches by workers: one process beside two, in processes here and on Dask, and what two free cores would make of it.

    python -m benchmarks.patches_by_workers [plane] [cube] [--rounds 3] [--executors processes dask alone]

Every round solves the same problem in one process, by one worker and by two, one after the other, so that whatever else
the machine does meets all of them. Wall times mean little on a machine that has other work: processor seconds are
beside them, those of this process (which does its part while workers wait, as a rule) and those of every piece, and
the pieces are laid out anew on two cores that nobody else uses; `alone` does that with pieces done in this process, for
machines that have no core to spare. Certificates must agree, and fields to rounding.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import cnf
from cnf.bases import Cells
from cnf.certificate import Certificate
from cnf.execution import Dask, Executor, Here, Processes, Shared, use
from cnf.execution.executor import LATER
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.problems import Problem
from cnf.pde.problems.on_patches import question_of
from cnf.solvers.branches import FactorBranch, Merge

ASKED, OVERHEAD = 1.6, 0.15
SAME = 1e-9  # of the largest weight
WAVES = r"\sin(8\pi x)\cos(6\pi y)"
SMOOTH = r"\sin(3x + 1)\cos(2y) e^z"


def plane() -> tuple[Problem, Mesh]:
    """122,880 conditions on a square: 1024 cells of degree 10."""
    equations = {"interior": rf"-\Delta u = 100 \pi^2 {WAVES}", "boundary": f"u = {WAVES}"}
    return cnf.Problem("x y", domain=cnf.Box((0, 0), (1, 1)), equations=equations), even(2, 10, 10)


def cube() -> tuple[Problem, Mesh]:
    """90,112 conditions in a cube: 128 cells of degree 8."""
    equations = {"interior": rf"-\Delta u = 12 {SMOOTH}", "boundary": f"u = {SMOOTH}"}
    return cnf.Problem("x y z", domain=cnf.Box((0, 0, 0), (1, 1, 1)), equations=equations), even(3, 7, 8)


def even(dimension: int, cuts: int, degree: int) -> Mesh:
    """All cells cut in two so many times, across one coordinate after the other."""
    cells = Cells([0.0] * dimension, [1.0] * dimension)
    for k in range(cuts):
        cells = cells.cut(list(range(cells.count)), k % dimension)
    return Mesh.of(cells, (degree,) * dimension)


@dataclass(frozen=True)
class Done:
    """A result, and what it took: processor seconds from begin to end, and of the worker so far."""

    result: Any
    worker: int
    began: float
    ended: float


@dataclass(frozen=True)
class Watched:
    """Work that looks at the clock."""

    work: Callable[[Any], Any]

    def __call__(self, piece: Any) -> Done:
        began = time.process_time()
        result = self.work(piece)
        return Done(result, os.getpid(), began, time.process_time())


def load(piece: int) -> int:
    """Libraries, on a worker."""
    import cnf.pde.patches.building  # noqa: F401

    time.sleep(0.05)  # so that every worker gets some
    return piece


@dataclass
class Piece:
    """`after` are numbers of the pieces of the same run whose results it needs."""

    kind: str
    seconds: float
    after: tuple[int, ...] = ()


class Counting(Executor):
    """Another executor, and an account of what it does; bytes are counted if asked for, which takes time."""

    def __init__(self, executor: Executor, weigh: bool = False):
        self.executor, self.weigh = executor, weigh
        self.runs: list[list[Piece]] = []
        self.sent = self.returned = 0
        self.folders: list[Path] = []
        self.clocks: dict[int, list[float]] = {}

    @property
    def workers(self) -> int:  # type: ignore[override]
        return self.executor.workers

    def run(self, work: Any, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        own: dict[int, Piece] = {}
        left: dict[Path, int] = {}

        def watched() -> Iterator[Any]:
            for piece in pieces:
                if piece is not LATER:
                    number = len(own)
                    after = tuple(left[path] for path in piece.parts) if isinstance(piece, Merge) else ()
                    own[number] = Piece(type(piece).__name__, 0.0, after)
                    if isinstance(piece, FactorBranch | Merge):
                        left[piece.left] = number
                    self.sent += len(pickle.dumps(piece)) if self.weigh else 0
                yield piece

        for number, done in self.executor.run(Watched(work), watched()):
            if not isinstance(done, Done):
                yield number, done
                continue
            own[number].seconds = done.ended - done.began
            clock = self.clocks.setdefault(done.worker, [done.began, done.ended])
            clock[1] = max(clock[1], done.ended)
            self.returned += len(pickle.dumps(done.result)) if self.weigh else 0
            yield number, done.result
        self.runs.append([own[k] for k in sorted(own)])

    def share(self, value: Any) -> Shared[Any]:
        return self.executor.share(value)

    def make_folder(self) -> Path:
        self.folders.append(self.executor.make_folder())
        return self.folders[-1]

    @property
    def worked(self) -> float:
        """Processor seconds of all workers; of those elsewhere with their messages."""
        if isinstance(self.executor, OneByOne):
            return sum(piece.seconds for run in self.runs for piece in run)
        return sum(last - first for first, last in self.clocks.values())

    def laid_out(self, cores: int) -> float:
        """Seconds that all pieces take on so many cores with nothing else to do, every one as soon as it can."""
        return sum(lay_out(run, cores) for run in self.runs)


class OneByOne(Executor):
    """This process, as if it were two workers: pieces and results go through messages, and one is done at a time."""

    workers = 2

    def run(self, work: Any, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        def sent(piece: Any) -> Any:
            return pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(piece)))))

        yield from Here().run(sent, pieces)

    def share(self, value: Any) -> Shared[Any]:
        return Here().share(value)


def lay_out(run: list[Piece], cores: int) -> float:
    free, ended = [0.0] * cores, list[float]()
    for piece in run:
        core = min(range(cores), key=lambda k: free[k])
        begin = max([free[core], *(ended[k] for k in piece.after)])
        free[core] = begin + piece.seconds
        ended.append(free[core])
    return max(ended, default=0.0)


@dataclass(frozen=True)
class Solved:
    """One solve: wall and processor seconds of this process, what came of it, and the account of the workers."""

    wall: float
    own: float
    weights: torch.Tensor
    certificate: Certificate
    account: Counting | None = field(default=None)


def solve(problem: Problem, mesh: Mesh, executor: Executor, weigh: bool = False) -> Solved:
    question = question_of(problem)
    orders, account = orders_of(question), None if isinstance(executor, Here) else Counting(executor, weigh)
    wall, own = time.perf_counter(), time.process_time()
    with use(executor if account is None else account), torch.no_grad():
        made = build_field(question, orders, mesh).eval()
        certificate = made.certificate
        wall, own = time.perf_counter() - wall, time.process_time() - own
        weights = made.solution.expansion.weights
        made.release()
    return Solved(wall, own, weights, certificate, account)


def report(name: str, alone: list[Solved], found: list[Solved], executor: Executor) -> tuple[float, float]:
    """A line, and the speed-up that so many free cores would give, and the ratio of wall times."""
    inside = [s.account.worked if isinstance(executor, OneByOne) and s.account else 0.0 for s in found]
    own = statistics.median(s.own - done for s, done in zip(found, inside, strict=True))
    accounts = [s.account for s in found if s.account is not None]
    worked = statistics.median(a.worked for a in accounts)
    pieces = statistics.median(a.laid_out(executor.workers) for a in accounts)
    one = statistics.median(s.own for s in alone)
    wall = statistics.median(a.wall / b.wall for a, b in zip(alone, found, strict=True))
    print(
        f"  {name:<24} wall {statistics.median(s.wall for s in found):6.2f} s ({wall:.2f} x)   processor: here "
        f"{own:.2f} s, workers {worked:.2f} s, pieces one after the other as they can {pieces:.2f} s   on free cores "
        f"{one / (own + pieces):.2f} x",
        flush=True,
    )
    return one / (own + pieces), wall


def run_case(case: Callable[[], tuple[Problem, Mesh]], rounds: int, kinds: list[str]) -> int:
    problem, mesh = case()
    print(f"{case.__name__}: {mesh.patches.count} patches", flush=True)
    with ExitStack() as stack:
        executors: dict[str, Executor] = {}
        for kind, make in (("processes", Processes), ("Dask", Dask)):
            for count in (1, 2) if kind.lower() in kinds else ():
                executors[f"{kind}, {count} worker{'s' * (count > 1)}"] = stack.enter_context(make(count))
        if "alone" in kinds:
            executors["this process, as if two"] = OneByOne()
        for executor in executors.values():  # started, and libraries loaded, before any clock runs
            list(executor.run(load, range(4 * executor.workers)))
        alone: list[Solved] = []
        found: dict[str, list[Solved]] = {name: [] for name in executors}
        for k in range(rounds):
            alone.append(solve(problem, mesh, Here()))
            for name, executor in executors.items():
                found[name].append(solve(problem, mesh, executor, weigh=k == rounds - 1))
                walls = f"{found[name][-1].wall:.2f} s beside {alone[-1].wall:.2f} s"
                print(f"  round {k + 1}: {name}, {walls}", flush=True)
        own = statistics.median(s.own for s in alone)
        certificate = alone[0].certificate
        print(f"  {certificate.conditions} conditions, worst {certificate.worst:.1e}, exact {certificate.exact}")
        print(f"  {'this process':<24} wall {statistics.median(s.wall for s in alone):6.2f} s   processor {own:.2f} s")
        missed = 0
        for name, executor in executors.items():
            free, _ = report(name, alone, found[name], executor)
            off = max(_apart(a, b) for a, b in zip(alone, found[name], strict=True))
            same = all(agree(a.certificate, b.certificate) for a, b in zip(alone, found[name], strict=True))
            good = same and off <= SAME and (free >= ASKED if executor.workers == 2 else free >= 1 / (1 + OVERHEAD))
            missed += not good
            agreed = f"certificates {'agree' if same else 'DIFFER'}, fields to {off:.0e}"
            print(f"  {'':<24} {agreed}{'' if good else '  MISSED'}")
        weighed = found[list(executors)[-1]][-1].account
        assert weighed is not None
        print(f"  sent {weighed.sent / 2**20:.1f} MB, returned {weighed.returned / 2**20:.1f} MB by messages")
        for kind in dict.fromkeys(p.kind for run in weighed.runs for p in run):
            seconds = [p.seconds for run in weighed.runs for p in run if p.kind == kind]
            print(f"    {kind:<14}{len(seconds):4} pieces, {sum(seconds):6.2f} s, the longest {max(seconds):.2f} s")
    return missed


def _apart(a: Solved, b: Solved) -> float:
    return float((a.weights - b.weights).abs().max() / a.weights.abs().max())


def agree(a: Certificate, b: Certificate) -> bool:
    """In all that counts; residuals of both are rounding."""
    names = ("conditions", "rank", "exact", "tolerance", "solver")
    return all(getattr(a, name) == getattr(b, name) for name in names)


CASES = {"plane": plane, "cube": cube}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--executors", nargs="+", choices=["processes", "dask", "alone"], default=["processes", "dask"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    return int(sum(run_case(CASES[name], given.rounds, given.executors) for name in given.cases) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
