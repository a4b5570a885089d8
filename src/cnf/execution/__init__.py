"""Execution: where independent pieces of work are done. One contract, arrays in and arrays out.

`Here()` does them one after the other in this process, `Processes(workers)` in processes of this machine. What comes
out does not depend on which of them it is.
"""

from cnf.execution.executor import Executor, Failed, Here, Shared
from cnf.execution.processes import Processes

__all__ = ["Executor", "Failed", "Here", "Processes", "Shared"]
