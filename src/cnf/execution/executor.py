"""Executors: the contract of all, and the simplest of them.

Work is a function of a module, or an object of a class of one that can be called, and that can be sent elsewhere; a
piece is what it is called with. What all pieces need is given once, by `share`. Results come as they are finished, with
the numbers of their pieces: whoever puts them together does so in the order of the numbers, and gets the same on every
executor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cnf.errors import ExecutionError

if TYPE_CHECKING:
    from cnf.execution.sharing import SharedFolder

Work = Callable[[Any], Any]
Value = TypeVar("Value", covariant=True)


class Later:
    """Among pieces: there is none now, but there may be when another result is in."""


LATER = Later()


class Shared(Protocol[Value]):
    """What all pieces of a work need; can be sent to wherever they are done.

    >>> with cnf.execution.Here() as here:
    ...     here.share([1, 2]).open()
    [1, 2]
    """

    def open(self) -> Value:
        """The value, there."""
        ...


@dataclass(frozen=True)
class Failed:
    """Stands for the result of a piece that has none.

    >>> cnf.execution.Failed("the worker was lost").raise_error()
    Traceback (most recent call last):
        ...
    cnf.errors.ExecutionError: the worker was lost
    """

    reason: str
    error: Exception | None = None  # what the work raised, if it came to that

    def raise_error(self) -> None:
        """As if the work had been done here."""
        raise self.error or ExecutionError(self.reason)


class Executor(ABC):
    """Where pieces are done; a context, on leaving which everything that it started ends.

    >>> def total(executor, pieces):
    ...     return sum(result for number, result in executor.run(abs, pieces))
    >>> with cnf.execution.Here() as here:
    ...     total(here, [-1, 2])
    3
    """

    workers: int = 1

    @abstractmethod
    def run(self, work: Work, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        """(number, work(piece)) of every piece as it is finished; `Failed` where there is no result.

        Pieces are taken from `pieces` as there is somebody to do them: of large ones few are held at once. Pieces that
        need results of others come after these, and `LATER` where all that are left still wait; it has no number.
        Whoever may leave it before its end closes it (`contextlib.closing`), and workers end what they are at.
        """

    @abstractmethod
    def share(self, value: Any) -> Shared[Any]:
        """Make a value known to all workers: plain data, dataclasses and arrays."""

    def warm_up(self, module: str) -> None:  # noqa: B027  (this process has loaded what it needs)
        """Have workers load a module meanwhile: what they start with takes seconds that nobody need wait for."""

    def make_folder(self) -> SharedFolder:
        """A new folder that all workers see; who asks for it removes it."""
        from cnf.execution.sharing import SharedFolder

        return SharedFolder.begin()

    def __deepcopy__(self, memo: dict) -> Executor:
        """Itself: workers are not part of what is copied."""
        return self

    def close(self) -> None:  # noqa: B027  (there may be nothing to end)
        """End what was started."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _Kept:
    """A value that is where it is needed already."""

    value: Any

    def open(self) -> Any:
        return self.value


class Here(Executor):
    """In this process, one piece after the other.

    >>> with cnf.execution.Here() as here:
    ...     list(here.run(abs, [-1, 2]))
    [(0, 1), (1, 2)]
    """

    def run(self, work: Work, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        for number, piece in enumerate(pieces):
            assert piece is not LATER, "nothing is under way that it could wait for"
            try:
                found = work(piece)
            except Exception as error:
                found = fail(error)
            yield number, found

    def share(self, value: Any) -> Shared[Any]:
        return _Kept(value)


def fail(error: Exception) -> Failed:
    """What there is instead of a result; the first line of the message as the reason."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return Failed(reason, error)
