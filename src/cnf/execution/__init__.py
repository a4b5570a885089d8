"""Execution: where independent pieces of work are done. One contract, arrays in and arrays out.

`Here()` does them one after the other in this process, `Processes(workers)` in processes of this machine, `Dask(...)`
on a cluster. What comes out does not depend on which of them it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from cnf.execution.executor import Executor, Failed, Here, Shared
from cnf.execution.on_dask import Dask
from cnf.execution.processes import Processes

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Dask", "Executor", "Failed", "Here", "Processes", "Shared", "open_executor", "use"]

_IN_USE: ContextVar[Executor | None] = ContextVar("executor in use", default=None)


def open_executor(workers: int | str | Executor | Client) -> Executor:
    """From a number of processes, the address of a Dask scheduler, its client, or what is an executor already.

    >>> type(cnf.execution.open_executor(1)).__name__
    'Here'
    """
    if isinstance(workers, Executor):
        return workers
    if not isinstance(workers, int):
        return Dask(workers)
    return Here() if workers == 1 and not isinstance(workers, bool) else Processes(workers)


@contextmanager
def opened(workers: int | str | Executor | Client) -> Iterator[Executor]:
    """The executor of these workers: what is started for it ends with the context, one that was given goes on.

    One worker is that of the innermost `use`, else this process.
    """
    if isinstance(workers, int) and workers == 1 and not isinstance(workers, bool):
        yield executor_in_use()
        return
    executor = open_executor(workers)
    try:
        yield executor
    finally:
        if executor is not workers:
            executor.close()


@contextmanager
def use(workers: int | str | Executor | Client) -> Iterator[Executor]:
    """All that can be done in pieces is, on this executor; it ends with the context unless it was there before.

    >>> with cnf.execution.use(1) as executor:
    ...     type(executor).__name__
    'Here'
    """
    executor = open_executor(workers)
    before = _IN_USE.set(executor)
    try:
        yield executor
    finally:
        _IN_USE.reset(before)
        if executor is not workers:
            executor.close()


def executor_in_use() -> Executor:
    """That of the innermost `use`; this process if there is none."""
    return _IN_USE.get() or Here()
