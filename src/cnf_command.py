"""Entry point of the `cnf` command, outside the package: Ctrl-C may come while that is imported.

Nothing is done yet then and nothing can be lost, so the process ends at once, with one line.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

WORDS = {signal.SIGINT: b"interrupted\n", signal.SIGTERM: b"terminated\n"}


def main() -> None:
    """Load the commands and run the one that was asked for."""
    before = {number: signal.getsignal(number) for number in WORDS}
    heard = [number for number, handler in before.items() if handler != signal.SIG_IGN]  # nohup and & have it ignored
    for number in heard:
        signal.signal(number, _end)
    from cnf.cli.main import main as run

    for number in heard:
        signal.signal(number, before[number])
    run()


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, WORDS[signal.Signals(number)])
    os._exit(128 + number)  # an exception would have to find its way out of half-imported modules


if __name__ == "__main__":
    main()
