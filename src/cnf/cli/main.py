"""Runs the `cnf` command, and turns every failure into one line and an exit code; `cnf_command` loads it.

Exit codes: 0 done, 1 the work failed, 2 the command was written wrongly, 130 interrupted, 143 terminated. SIGTERM ends
a run as Ctrl-C does: results that were there stay as they are, hidden folders are removed.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; Python's own end has nothing to say about it
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return run_app("cnf", gather, arguments)


def gather() -> Typer:
    """The commands; a function, for they need an extra."""
    from cnf.cli.gathering import app

    return app


def run_app(name: str, gather: Callable[[], Typer], arguments: list[str]) -> int:
    """Run the commands that `gather` brings, under the name they were called by; returns the exit code."""
    from cnf.errors import CnfError, MissingExtraError

    with warnings.catch_warnings(), _heeding_terminate() as terminated:
        warnings.showwarning = show_note
        try:
            try:
                import rich  # noqa: F401
                import typer
            except ImportError:
                raise MissingExtraError.of(f"{name} needs typer and rich", "typer rich", "cli") from None
            command = typer.main.get_command(gather())
            code = int(command.main(arguments or ["--help"], prog_name=name, standalone_mode=False) or 0)
            return _interrupted(terminated) if code == 130 else code  # typer may turn Ctrl-C into this code
        except CnfError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return _interrupted(terminated)
        except BrokenPipeError:  # cnf ... | head
            sys.stderr.close()
            return 0
        except MemoryError:
            print("error: out of memory; try a smaller problem", file=sys.stderr)
            return 1
        except Exception as error:
            if type(error).__name__ == "Abort":  # click turns Ctrl-C into this
                return _interrupted(terminated)
            return _usage(error, name)


@contextmanager
def _heeding_terminate() -> Iterator[list[int]]:
    """Have SIGTERM end the work as Ctrl-C does; the list says whether it came."""
    came: list[int] = []
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if main_thread else signal.SIG_IGN
    if before == signal.SIG_IGN:
        yield came
        return

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(terminated: list[int]) -> int:
    print("terminated" if terminated else "interrupted", file=sys.stderr)
    return 143 if terminated else 130


def _usage(error: Exception, name: str) -> int:
    """What typer and click raise; anything else is a defect and keeps its traceback."""
    from cnf.errors import nearest

    message = getattr(error, "format_message", None)
    if message is None:
        raise error
    if possible := getattr(error, "possibilities", None):  # dashes alone make no option similar
        wanted = str(getattr(error, "option_name", "")).lstrip("-")
        error.possibilities = [option for option in possible if nearest(wanted, [option.lstrip("-")])]  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else name
    print(f"error: {' '.join(str(message()).split())} ({command} --help shows how to write it)", file=sys.stderr)
    return int(getattr(error, "exit_code", 2))


def show_note(message, category, filename, lineno, file=None, line=None) -> None:
    """A warning as one line."""
    print(f"note: {' '.join(str(message).split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
