"""Cases in processes of their own, which end with the process that started them, however it ends.

Every worker watches its parent: when that is gone, even by SIGKILL, the worker is gone with the case it was at. Ctrl-C
is left to the parent, which ends its workers.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from studies.study import Case, Desk, Row, Study

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Memory that a step gives back is kept for the next one: fetching large pieces anew from the system each time took half
# of a hypernet's step. Read by glibc as a process starts; others pass it over.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
Done = tuple[Case, Row, list[str]]  # a case, its row, and the files that belong to it


def attempt(study: Study, case: Case, desk: Desk) -> Row:
    """The row of a case, with what it took in all; one that fails says why, and what is no error of cnf says where."""
    wall, processor = time.perf_counter(), time.process_time()
    try:
        found = {**case, **study.run(case, desk)}
        spent = {"case_seconds": time.perf_counter() - wall, "case_processor_seconds": time.process_time() - processor}
        return {**found, **spent}
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        where = {} if isinstance(error, CnfError) else {"traceback": traceback.format_exc()}
        return {**case, "failed": reason, **where}


def run_in_processes(study: Study, cases: Sequence[Case], folder: Path, workers: int) -> Iterator[Done]:
    """Every case with its row as it is done; whatever happens, no worker is left."""
    waiting, idle = list(cases), list[Worker]()
    busy: dict[Any, Worker] = {}
    limit = math.inf if study.timeout is None else study.timeout
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else Worker.start(study, folder)
                worker.give(waiting.pop(0))
                busy[worker.pipe] = worker
            left = min(limit - worker.age for worker in busy.values())
            ready = connection.wait(list(busy), None if math.isinf(left) else max(0.0, left))
            for pipe, worker in list(busy.items()):
                done = worker.take() if pipe in ready else worker.give_up(limit) if worker.age >= limit else None
                if done is None:
                    continue
                del busy[pipe]
                yield done
                if worker.process.is_alive() and not study.alone:
                    idle.append(worker)
                else:
                    worker.stop()
    finally:
        for worker in [*busy.values(), *idle]:
            worker.stop()


@dataclass
class Worker:
    """A process, the pipe that cases and rows go through, and the case it is at."""

    process: Any
    pipe: connection.Connection
    case: Case
    began: float = math.inf  # when the case did: loading libraries does not count

    @staticmethod
    def start(study: Study, folder: Path) -> Worker:
        """A process with as many threads as the study says."""
        context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pools
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(study, folder, there), daemon=True)
        wanted = dict.fromkeys(THREADS, str(study.threads)) | MEMORY  # libraries read it as they are loaded
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        there.close()
        return Worker(process, here, {})

    def give(self, case: Case) -> None:
        """Hand over a case."""
        self.case, self.began = case, math.inf
        self.pipe.send(case)

    @property
    def age(self) -> float:
        """Seconds since the case began."""
        return max(0.0, time.monotonic() - self.began)

    def take(self) -> Done | None:
        """What the worker says: that it begins (None), what it found, or that it is gone."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return self.case, {**self.case, "failed": f"its process {how}"}, []
        if said is None:
            self.began = time.monotonic()
            return None
        return self.case, *said

    def give_up(self, limit: float) -> Done:
        """End a case that takes too long."""
        self.stop()
        return self.case, {**self.case, "failed": f"stopped after {limit:g} s"}, []

    def stop(self) -> None:
        """End the process, whatever it is at."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _work(study: Study, folder: Path, pipe: connection.Connection) -> None:
    """What a worker does: cases as they come, until there are no more."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    import torch

    torch.set_num_threads(study.threads)
    shared: dict[str, Any] = {}
    while True:
        try:
            case = pipe.recv()
        except (EOFError, OSError):
            return
        desk = Desk(folder, study.name_case(case), shared=shared)
        pipe.send(None)
        pipe.send((attempt(study, case, desk), desk.files))


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
