"""Staging: hidden folders beside the one that is asked for, and how one takes its place in one step.

In: the place results shall have. Out: a folder of a known pattern, locked as long as its run lives; the exchange of the
two; what happens to files that somebody else put there. Used by `results` only.

Linux exchanges two folders in one step. Elsewhere the old one is moved aside first; a kill in between leaves no folder,
and the next run puts the old one back.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cnf.errors import FileError
from cnf.files import STALE, lock_folder, read_text

RECORD, UNFINISHED = "run.json", ".cnf-unfinished"
LARGEST_RECORD = 2**24  # bytes
TRIES = 100  # if other runs are in the way


@dataclass(frozen=True)
class Stage:
    """A hidden folder that this process holds a lock on; marked as unfinished until it is put in place."""

    path: Path
    lock: int | None

    @staticmethod
    def begin(place: Path) -> Stage:
        """Make one beside `place`, with the permissions of what it will replace."""
        for _ in range(TRIES):
            path = place.with_name(f".{place.name}.cnf-{secrets.token_hex(8)}")
            path.mkdir()
            try:
                lock = lock_folder(path)
                if place.is_dir():
                    shutil.copymode(place, path)
                (path / UNFINISHED).touch()
                return Stage(path, lock)
            except (FileNotFoundError, BlockingIOError):
                continue  # another run took it for litter before it was locked
        raise FileError(f"cannot write into {place}: other runs are in the way")

    def put(self, place: Path, replaces: Collection[str] = ()) -> None:
        """Take the place, undisturbed; of what was there, files of other people and other kinds of runs come along."""
        with undisturbed():
            (self.path / UNFINISHED).unlink()
            try:
                left = swap(self.path, place)
            except BaseException:
                (self.path / UNFINISHED).touch()
                raise
            if left is not None:
                carry(left, place, {*replaced_files(left, place), *replaces})

    def end(self) -> None:
        """Remove it unless it was put in place: its name may be that of older results then."""
        if (self.path / UNFINISHED).exists():
            shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)


def sweep(place: Path) -> None:
    """Remove hidden folders that killed runs left beside `place`; whatever is not theirs in them is put back."""
    pattern = re.compile(rf"\.{re.escape(place.name)}\.cnf-[0-9a-f]{{16}}(-old)?")
    with suppress(OSError):
        for path in sorted(place.parent.iterdir()):
            if pattern.fullmatch(path.name):
                with suppress(OSError, FileError):
                    _sweep_one(path, place)


def _sweep_one(path: Path, place: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return
    lock = lock_folder(path)  # BlockingIOError: its run goes on
    try:
        if lock is None and time.time() - found.st_mtime < STALE:
            return
        if (path / UNFINISHED).exists():
            shutil.rmtree(path)
        elif not os.path.lexists(place) and (path.name.endswith("-old") or (path / RECORD).exists()):
            os.rename(path, place)
        else:
            carry(path, place, replaced_files(path, place))
    finally:
        if lock is not None:
            os.close(lock)


def swap(stage: Path, place: Path) -> Path | None:
    """Put `stage` in the place of `place`; where the old folder is now, if there was one."""
    aside = stage.with_name(f"{stage.name}-old")
    for _ in range(TRIES):
        try:
            if not os.path.lexists(place):
                os.rename(stage, place)
                return None
            if exchange(stage, place):
                return stage
            os.rename(place, aside)
            try:
                os.rename(stage, place)
            except OSError:
                os.rename(aside, place)
                raise
            return aside
        except OSError as error:  # another run was there in between
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise FileError(f"cannot write into {place}: other runs are in the way")


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False if the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    here, both_ways = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename(here, os.fsencode(one), here, os.fsencode(other), both_ways) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number))


def read_records(folder: Path) -> dict[str, dict]:
    """What kinds of runs filled a folder: kind -> record with "run" and "files"; nothing if that cannot be read."""
    try:
        found = json.loads(read_text(folder / RECORD, LARGEST_RECORD))
        entries = {str(kind): record for kind, record in found.items() if isinstance(record, dict)}
    except (FileError, ValueError, AttributeError, RecursionError):
        return {}
    whole = [k for k, r in entries.items() if isinstance(r.get("run"), str) and isinstance(r.get("files"), dict)]
    return {kind: entries[kind] for kind in whole}


def read_own_record(file: Path) -> dict[str, str]:
    """The files, with checksums, of a run that keeps its record in one of them, `file`; none if it is no record."""
    try:
        found = json.loads(read_text(file, LARGEST_RECORD))["run"]["files"]
        return {str(name): str(known) for name, known in found.items()}
    except (FileError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def replaced_files(old: Path, new: Path) -> set[str]:
    """Files of runs that `old` records and `new` does not: a later run of the same kind took their place."""
    there = {record["run"] for record in read_records(new).values()}
    gone = [record["files"] for record in read_records(old).values() if record["run"] not in there]
    return {name for files in gone for name in files}


def carry(old: Path, new: Path, dropped: Collection[str], prefix: str = "") -> None:
    """Empty and remove `old`: what is `dropped`, or there in `new`, goes; everything else moves to `new`."""
    with suppress(FileNotFoundError):  # another run may be doing the same
        # The record goes last: another run that sweeps the same folder must still learn from it what is dropped.
        for entry in sorted(os.scandir(old), key=lambda entry: entry.name == RECORD):
            name, place = prefix + entry.name, new / entry.name
            is_folder, taken = entry.is_dir(follow_symlinks=False), os.path.lexists(place)
            if is_folder and ((taken and place.is_dir()) or any(n.startswith(f"{name}/") for n in dropped)):
                carry(Path(entry.path), place, dropped, f"{name}/")
            elif not is_folder and (taken or name in dropped):
                os.unlink(entry.path)
            else:
                _move(Path(entry.path), place)
        old.rmdir()


def _move(path: Path, place: Path) -> None:
    while os.path.lexists(place):  # a folder of the user where a file of ours is now
        place = place.with_name(f"{place.name}-kept")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, place)
    except OSError as error:
        if path.exists():
            raise FileError(
                f"the new results are in place, but {place} could not be moved there: {error.strerror or error}; it is "
                f"kept as {path}"
            ) from None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back for the moment it takes."""
    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread
        yield
        return
    caught: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: caught.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for pending in dict.fromkeys(caught):
            signal.raise_signal(pending)
