"""Cases in processes of their own: what comes of each, with what it took."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from cnf.execution import Failed, Processes
from cnf.execution.executor import fail
from studies.study import Case, Desk, Row, Study

Done = tuple[Case, Row, list[str]]  # a case, its row, and the files that belong to it


def attempt(study: Study, case: Case, desk: Desk) -> Row:
    """The row of a case, with what it took in all; one that fails says why, and what is no error of cnf says where."""
    wall, processor = time.perf_counter(), time.process_time()
    try:
        found = {**case, **study.run(case, desk)}
        spent = {"case_seconds": time.perf_counter() - wall, "case_processor_seconds": time.process_time() - processor}
        return {**found, **spent}
    except Exception as error:
        where = {} if isinstance(error, CnfError) else {"traceback": traceback.format_exc()}
        return {**case, "failed": fail(error).reason, **where}


@dataclass
class Attempts:
    """The work of a study, which workers do case by case; `shared` is what one case keeps for the next."""

    study: Study
    folder: Path
    shared: dict[str, Any] = field(default_factory=dict)

    def __call__(self, case: Case) -> tuple[Row, list[str]]:
        desk = Desk(self.folder, self.study.name_case(case), shared=self.shared)
        return attempt(self.study, case, desk), desk.files


def run_in_processes(study: Study, cases: Sequence[Case], folder: Path, workers: int) -> Iterator[Done]:
    """Every case with its row as it is done; whatever happens, no worker is left."""
    waiting = list(cases)
    pool = Processes(workers, study.threads, tries=1, timeout=study.timeout, fresh=study.alone, keep_memory=True)
    with pool, closing(pool.run(Attempts(study, folder), waiting)) as running:
        for number, found in running:
            case = waiting[number]
            yield (case, {**case, "failed": found.reason}, []) if isinstance(found, Failed) else (case, *found)
