"""Entry point of the `cnf` command: runs it, and turns every failure into one line and an exit code.

Exit codes: 0 done, 1 the work failed, 2 the command was written wrongly, 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return run_app("cnf", gather, arguments)


def gather() -> Typer:
    """The commands; a function, for they need an extra."""
    from cnf.cli.gathering import app

    return app


def run_app(name: str, gather: Callable[[], Typer], arguments: list[str]) -> int:
    """Run the commands that `gather` brings, under the name they were called by; returns the exit code."""
    try:
        import rich  # noqa: F401
        import typer
    except ImportError:
        print(f'error: {name} needs typer and rich: pip install "constrained-neural-fields[cli]"', file=sys.stderr)
        return 1
    from cnf.errors import CnfError

    command = typer.main.get_command(gather())
    with warnings.catch_warnings():
        warnings.showwarning = show_note
        try:
            code = int(command.main(arguments or ["--help"], prog_name=name, standalone_mode=False) or 0)
            return _interrupted() if code == 130 else code  # typer may turn Ctrl-C into this code
        except CnfError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return _interrupted()
        except BrokenPipeError:  # cnf ... | head
            sys.stderr.close()
            return 0
        except MemoryError:
            print("error: out of memory; try a smaller problem", file=sys.stderr)
            return 1
        except Exception as error:
            return _usage(error, name)


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return 130


def _usage(error: Exception, name: str) -> int:
    """What typer and click raise; anything else is a defect and keeps its traceback."""
    if type(error).__name__ == "Abort":  # click turns Ctrl-C into this
        return _interrupted()
    message = getattr(error, "format_message", None)
    if message is None:
        raise error
    print(f"error: {' '.join(str(message()).split())} ({name} --help shows how to write it)", file=sys.stderr)
    return int(getattr(error, "exit_code", 2))


def show_note(message, category, filename, lineno, file=None, line=None) -> None:
    """A warning as one line."""
    print(f"note: {' '.join(str(message).split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
