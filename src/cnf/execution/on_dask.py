"""Dask: workers of a cluster, started here or joined at its address.

Dask itself gives the piece of a lost worker to another. Arrays that are shared lie in a folder that all workers see:
on one machine any, on several one of a file system that they have in common.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Generator, Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnf.errors import CnfError, ExecutionError
from cnf.execution.executor import LATER, Executor, Failed, Shared, Work, fail
from cnf.execution.sharing import SharedFolder, file_arrays

if TYPE_CHECKING:
    from distributed import Client, Future

AHEAD = 2  # pieces for every worker that are under way: one is done while the next one is sent


class Dask(Executor):
    """`where`: a number of workers to be started on this machine, the address of a scheduler, or a `Client`.

    `folder`: one that all workers see. `memory`: of each worker that is started here, such as "4GB". `tries`: how often
    a piece is given out whose worker is lost, by workers that are started here. `timeout`: seconds in which a scheduler
    must answer.

    >>> with cnf.execution.Dask("tcp://head-node:8786") as cluster:  # doctest: +SKIP
    ...     sizes = dict(cluster.run(abs, [-1, 2]))
    """

    def __init__(
        self,
        where: int | str | Client,
        folder: str | Path | None = None,
        memory: str | None = None,
        tries: int = 3,
        timeout: float = 20.0,
    ) -> None:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise CnfError("Dask is not installed: pip install 'constrained-neural-fields[dask]'") from None
        self.folder, self._folders, self._started = folder, list[SharedFolder](), list[Any]()
        self._warming: list[Future] = []  # forgotten ones would be cancelled
        if isinstance(where, Client):
            self.client = where
        elif isinstance(where, str):
            self.client = self._join(where, timeout)
        else:
            if not isinstance(where, int) or isinstance(where, bool) or not 1 <= where <= 256:
                raise CnfError(f"workers are 1 to 256; got {where!r}")
            with dask.config.set({"distributed.scheduler.allowed-failures": tries - 1}):
                cluster = LocalCluster(
                    n_workers=where,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=None,
                    memory_limit=memory or "auto",
                )
            self.client = Client(cluster)
            self._started = [self.client, cluster]
        self._address = getattr(self.client.scheduler, "address", where)

    def _join(self, address: str, timeout: float) -> Client:
        from distributed import Client

        try:
            client = Client(address, timeout=timeout)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise CnfError(
                f"no Dask scheduler answers at {address!r}: {reason[0]}; see dask scheduler --help"
            ) from None
        self._started = [client]
        return client

    @property
    def workers(self) -> int:  # type: ignore[override]
        """As many as there are now."""
        return len(self.client.scheduler_info(n_workers=-1).get("workers", ()))

    def run(self, work: Work, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        from distributed import as_completed

        source, begun = iter(pieces), count()
        numbers: dict[Future, int] = {}
        running = as_completed()

        def give_out() -> None:
            while len(numbers) < AHEAD * max(1, self.workers):
                piece = next(source, LATER)
                if piece is LATER:
                    return
                future = self.client.submit(_do, work, piece, pure=False)
                numbers[future] = next(begun)
                running.add(future)

        try:
            give_out()
            for future in running:
                found = _take(future)
                if isinstance(found, Failed) and self.client.status != "running":
                    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it says so, too, at length
                    raise ExecutionError(f"the Dask scheduler at {self._address} does not answer any more")
                yield numbers.pop(future), found
                give_out()
        finally:
            if self.client.status == "running":
                for future in numbers:
                    future.cancel()

    def warm_up(self, module: str) -> None:
        for address in self.client.scheduler_info(n_workers=-1)["workers"]:
            self._warming.append(self.client.submit(_load, module, workers=[address], pure=False))

    def share(self, value: Any) -> Shared[Any]:
        self._folders.append(self.make_folder())
        return file_arrays(value, self._folders[-1].path)

    def make_folder(self) -> SharedFolder:
        made = SharedFolder.begin(self.folder)
        seen = self.client.run(os.path.isdir, str(made.path))
        if not all(seen.values()):
            made.remove()
            raise CnfError(
                f"{sum(not there for there in seen.values())} of {len(seen)} Dask workers do not see {made.path}; give "
                "a folder that all their machines have in common"
            )
        return made

    def close(self) -> None:
        self._warming.clear()
        while self._folders:
            self._folders.pop().remove()
        while self._started:
            self._started.pop(0).close()


def _load(module: str) -> None:
    """What a worker does while there is nothing else."""
    importlib.import_module(module)


def _do(work: Work, piece: Any) -> Any:
    """What a worker does."""
    try:
        return work(piece)
    except Exception as error:
        return fail(error)


def _take(future: Future) -> Any:
    """The result; `Failed` if there is none, whatever the reason."""
    try:
        return future.result()
    except Exception as error:  # lost with all workers that tried it, or with the scheduler
        return Failed(f"Dask could not do a piece: {type(error).__name__}: {str(error).splitlines()[0][:300]}")
