"""Execution: where independent pieces of work are done. One contract, arrays in and arrays out.

`Here()` does them one after the other in this process, `Processes(workers)` in processes of this machine, `Dask(...)`
on a cluster. What comes out does not depend on which of them it is.
"""

from cnf.execution.executor import Executor, Failed, Here, Shared
from cnf.execution.on_dask import Dask
from cnf.execution.processes import Processes

__all__ = ["Dask", "Executor", "Failed", "Here", "Processes", "Shared", "open_executor"]


def open_executor(workers: int | str | Executor) -> Executor:
    """From a number of processes, the address of a Dask scheduler, or what is an executor already.

    >>> type(cnf.execution.open_executor(1)).__name__
    'Here'
    """
    if isinstance(workers, Executor):
        return workers
    if isinstance(workers, str):
        return Dask(workers)
    return Here() if workers == 1 and not isinstance(workers, bool) else Processes(workers)
