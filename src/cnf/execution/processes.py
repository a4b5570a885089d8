"""Processes of this machine, which end with the process that started them, however it ends.

Every worker watches its parent: when that is gone, even by SIGKILL, the worker is gone with the piece it was at. Ctrl-C
is left to the parent, which ends its workers. A piece whose worker is lost is done again by another.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import connection
from typing import Any

from cnf.errors import CnfError
from cnf.execution.executor import LATER, Executor, Failed, Shared, Work, fail
from cnf.execution.sharing import SharedFolder, file_arrays, remove_abandoned

FAREWELLS = 5  # looks for what a parent left, once it is gone
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Memory that a step gives back is kept for the next one: fetching large pieces anew from the system each time took half
# of a hypernet's step. Read by glibc as a process starts; others pass it over.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
MOST = 256  # workers


class Processes(Executor):
    """So many workers, with `threads` each.

    `tries`: how often a piece is given out whose worker is lost. `timeout`: seconds after which a piece is given up.
    `fresh`: every piece gets a process of its own. `keep_memory`: for work that asks for the same memory again and
    again.

    >>> cnf.execution.Processes(4, threads=1).workers  # started when there is work
    4
    """

    def __init__(
        self,
        workers: int,
        threads: int = 1,
        tries: int = 3,
        timeout: float | None = None,
        fresh: bool = False,
        keep_memory: bool = False,
    ) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= MOST:
            raise CnfError(f"workers are 1 to {MOST}; got {workers!r}")
        self.workers, self.threads, self.tries, self.fresh = workers, threads, tries, fresh
        self.timeout = math.inf if timeout is None else timeout
        self.environment = dict.fromkeys(THREADS, str(threads)) | (KEEP_MEMORY if keep_memory else {})
        self._idle: list[Worker] = []
        self._folders: list[SharedFolder] = []

    def run(self, work: Work, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        source, again, begun = iter(pieces), deque[Assigned](), count()
        busy: dict[connection.Connection, Worker] = {}
        try:
            while True:
                while len(busy) < self.workers:
                    given = again.popleft() if again else _next(source, begun)
                    if given is None:
                        break
                    worker = self._idle.pop() if self._idle else self._start()
                    busy[worker.pipe] = worker
                    worker.give(work, given)
                if not busy:
                    return  # there is none, now or later: nothing is under way that one could wait for
                left = min(self.timeout - worker.age for worker in busy.values())
                ready = connection.wait(list(busy), None if math.isinf(left) else max(0.0, left))
                for pipe, worker in list(busy.items()):
                    answer = self._look(worker, pipe in ready)
                    if answer is None:
                        continue
                    del busy[pipe]
                    if worker.process.is_alive() and not self.fresh:
                        self._idle.append(worker)
                    else:
                        worker.stop()
                    if answer.lost and worker.given.tries < self.tries:
                        again.append(worker.given)
                        continue
                    yield worker.given.number, answer.result
        finally:
            for worker in busy.values():
                worker.stop()

    def _look(self, worker: Worker, ready: bool) -> Answer | None:
        """What a worker says, if anything; one that takes too long is stopped."""
        if ready:
            return worker.take()
        if worker.age < self.timeout:
            return None
        worker.stop()
        return Answer(Failed(f"stopped after {self.timeout:g} s"))

    def _start(self, module: str = "") -> Worker:
        return Worker.start(self.threads, self.environment, module)

    def warm_up(self, module: str) -> None:
        if not self.fresh:
            self._idle += [self._start(module) for _ in range(self.workers - len(self._idle))]

    def share(self, value: Any) -> Shared[Any]:
        self._folders.append(SharedFolder.begin())
        return file_arrays(value, self._folders[-1].path)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().stop()
        while self._folders:
            self._folders.pop().remove()


@dataclass
class Assigned:
    """A piece with its number, and how often it was given out."""

    number: int
    piece: Any
    tries: int = 0


@dataclass(frozen=True)
class Answer:
    """What came of a piece; `lost` if its worker ended before there was anything."""

    result: Any
    lost: bool = False


def _next(source: Iterator[Any], begun: Iterator[int]) -> Assigned | None:
    """The next piece with its number; None if there is none, or none now."""
    found = next(source, LATER)
    return None if found is LATER else Assigned(next(begun), found)


@dataclass
class Worker:
    """A process, the pipe that pieces and results go through, and the piece it is at."""

    process: Any
    pipe: connection.Connection
    work: Work | None = None
    given: Assigned = None  # type: ignore[assignment]
    began: float = math.inf  # when it did the piece: loading libraries does not count

    @staticmethod
    def start(threads: int, environment: dict[str, str], module: str = "") -> Worker:
        """A process with so many threads, which loads a module before it is given anything."""
        context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pools
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(threads, there, module), daemon=True)
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)  # libraries read it as they are loaded
        try:
            process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        there.close()
        return Worker(process, here)

    def give(self, work: Work, given: Assigned) -> None:
        """Hand over a piece, and the work if it is another than before."""
        given.tries += 1
        self.given, self.began = given, math.inf
        with suppress(OSError):  # it ended meanwhile, which its answer will say
            self.pipe.send((None if work is self.work else work, given.piece))
        self.work = work

    @property
    def age(self) -> float:
        """Seconds since the piece began."""
        return max(0.0, time.monotonic() - self.began)

    def take(self) -> Answer | None:
        """What the worker says: that it begins (None), what it found, or that it is gone."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return Answer(Failed(f"its process {how}"), lost=True)
        if said is None:
            self.began = time.monotonic()
            return None
        return Answer(*said)

    def stop(self) -> None:
        """End the process, whatever it is at."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(threads: int, pipe: connection.Connection, module: str) -> None:
    """What a worker does: pieces as they come, until there are no more."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    if module:
        importlib.import_module(module)
    work: Any = None
    while True:
        try:
            other, piece = pipe.recv()
        except (EOFError, OSError):
            return
        work = work if other is None else other
        if "torch" in sys.modules:  # brought by the work; it heeds the environment, but not on every system
            sys.modules["torch"].set_num_threads(threads)
        pipe.send(None)
        try:
            found = work(piece)
        except Exception as error:
            found = fail(error)
        try:
            pipe.send((found,))
        except Exception as error:  # what cannot be sent, such as an error that holds what it was about
            pipe.send((Failed(f"{found.reason if isinstance(found, Failed) else error}"),))


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        for _ in range(FAREWELLS):  # its pipes may be closed a moment before its locks are free
            remove_abandoned()  # which it may not have had the time to do
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
