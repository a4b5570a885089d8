"""Files: written whole or not at all, and read as data from strangers.

Archives are dictionaries of tensors, numbers and strings, written by torch and read back with `weights_only`, so that a
file can never run code.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import pickletools
import re
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnf.errors import FileError

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 8 * 2**30  # bytes
STALE = 7 * 86_400.0  # seconds after which a folder of a run is litter where nothing can be locked
DEEPEST = 200  # lists within lists that an archive may have
PLAIN_NAMES = re.compile(  # what the tensors and dictionaries of an archive are made with
    r"torch\._utils _rebuild_(tensor_v2|parameter)|torch(\.storage)? \w+Storage|collections OrderedDict"
)


def as_path(path: object) -> Path:
    """A path from a string or path-like object."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise FileError(f"expected a file name, got {path!r}")
    return Path(os.fspath(path))


def check_writable(path: object) -> Path:
    """The path, if a file can be created there; fails early instead of after hours of work."""
    target = as_path(path)
    try:
        if target.is_dir():
            raise FileError(f"cannot write {target}: it is a folder; give a file name")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".cnf-", dir=target.parent)
        os.close(handle)
        os.unlink(name)
        target.exists()  # a name that is too long fails here
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot write {target}: {reason}; choose another name or folder") from None
    return target


def write_atomically(path: object, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside the target, then rename it: an interrupted run keeps the old file."""
    target = check_writable(path)
    temporary = target.parent / f".cnf-{secrets.token_hex(8)}{target.suffix}"
    try:
        # Made as any other file is, so that it gets the permissions the user wants: those of the file it replaces, or
        # what the umask leaves. `tempfile` would keep it from everyone else.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if target.exists():
            shutil.copymode(target, temporary)
        write(temporary)
        os.replace(temporary, target)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise FileError(f"cannot write {target}: {reason}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def write_text(path: object, text: str) -> Path:
    """Write a text in UTF-8, whole or not at all; line ends stay as they are."""
    return write_atomically(path, lambda file: file.write_bytes(text.encode()))


def as_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The text of a CSV file; numbers with all digits, so that they read back the same, nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(
        [float(cell) if isinstance(cell, float) else cell for cell in row] for row in rows
    )  # of NumPy, too
    return text.getvalue()


def read_text(path: object, largest: int) -> str:
    """A text file in UTF-8 of at most `largest` bytes, with one clear line for whatever is wrong with it."""
    source = as_path(path)
    try:
        if not source.exists():
            raise FileError(f"there is no file {source}")
        if not source.is_file():
            raise FileError(f"{source} is not a file")
        if source.stat().st_size > largest:
            raise FileError(f"{source} has {source.stat().st_size} bytes; at most {largest} are read")
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a text file in UTF-8") from None
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None


def hash_file(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock_folder(path: Path) -> int | None:
    """A lock that ends with the process; None where there are none, BlockingIOError if another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None  # a file system without locks
    return handle


def write_archive(path: object, kind: str, version: int, content: dict) -> Path:
    """Save a dictionary of tensors and plain values, marked with what it is."""
    import torch  # here and below: what reads texts does without it

    marked = {"kind": kind, "version": version, **_mapped(content, _compact, {})}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # by name, torch would put the temporary name into the archive
            torch.save(marked, file)

    return write_atomically(path, write)


def read_archive(path: object, kind: str, version: int, largest: int = LARGEST) -> dict:
    """Read what `write_archive` wrote, up to `largest` bytes; anything else is refused with one clear line.

    No more memory is asked for than the file itself is long: nothing in it is packed, tensors are mapped and looked at
    before they are copied, and each must be there in full (no single number that claims to be a million).
    """
    import torch

    source = as_path(path)
    try:
        there = source.is_file()
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}") from None
    if not there:
        raise FileError(f"there is no file {source}")
    if not zipfile.is_zipfile(source):
        raise FileError(f"{source} is damaged or not a {kind}: it was cut short, or written by another program")
    try:
        size = source.stat().st_size
        _check_entries(source, kind, size, largest)
        mapped = torch.load(str(source), map_location="cpu", weights_only=True, mmap=True)
        content = _mapped(mapped, _Allowance(2 * size).taken, {}, size)
    except FileError as error:
        raise FileError(f"{source} {error}") from None
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # torch raises many kinds for a damaged or foreign archive
        raise FileError(f"{source} is damaged or not a {kind} ({type(error).__name__})") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise FileError(f"{source} is not a {kind}")
    found = content.get("version")
    if not isinstance(found, int) or found < 1:
        raise FileError(f"{source} is damaged: it has no version number")
    if found > version:
        raise FileError(
            f"{source} has format version {found}, newer than the {version} this cnf reads; update cnf to read it"
        )
    return content


def _check_entries(source: Path, kind: str, size: int, largest: int) -> None:
    """Every entry whole and as it is, none claiming more than the file holds, no names but those of plain data."""
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > largest:
            raise FileError(f"holds {unpacked / 2**20:.0f} MB, far more than this {kind} can; it is not read")
        if unpacked > size or any(e.compress_type != zipfile.ZIP_STORED for e in entries):
            raise FileError(f"is not a {kind}: it was packed by another program, and is not unpacked")
        if archive.testzip() is not None:  # torch does not look at the checksums
            raise FileError("is damaged: its checksums do not fit")
        for entry in entries:
            if entry.filename.endswith("data.pkl"):
                _check_names(archive.read(entry), kind)


def _check_names(instructions: bytes, kind: str) -> None:
    """Refuse a file that calls for anything but tensors and dictionaries; it is only looked at, not followed."""
    for opcode, argument, _ in pickletools.genops(instructions):
        named = opcode.name == "GLOBAL" and PLAIN_NAMES.fullmatch(str(argument))
        if not named and opcode.name in ("GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise FileError(f"is damaged or not a {kind}: it holds something else than tensors and plain data")


class _Allowance:
    """Copies tensors out of a file, up to so many bytes altogether."""

    def __init__(self, size: int):
        self._left = size

    def taken(self, tensor: Tensor) -> Tensor:
        import torch
        from torch import Tensor, nn

        plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout == torch.strided
        if not plain or tensor.device.type != "cpu" or tensor.is_quantized:
            raise FileError("is damaged: it has an array of a kind that is never written")
        needed = tensor.numel() * tensor.element_size()
        self._left -= needed
        if needed > tensor.untyped_storage().nbytes() or self._left < 0:
            raise FileError("is damaged: it has an array larger than the file")
        return tensor.detach().clone(memory_format=torch.contiguous_format)


def _compact(tensor: Tensor) -> Tensor:
    """On the CPU, without a graph, and without the rest of a larger array that it may be a view of."""
    import torch

    found = tensor.detach().cpu()
    whole = found.is_contiguous() and found.untyped_storage().nbytes() == found.numel() * found.element_size()
    return found if whole else found.clone(memory_format=torch.contiguous_format)


def _mapped(value: object, change: Callable[[Tensor], Tensor], known: dict[int, Tensor], most: int = 2**40):
    """The same structure with its tensors changed, those that occur twice once; `most` bounds its parts."""
    from torch import Tensor

    left = [most]

    def walk(part: object, depth: int) -> object:
        left[0] -= 1
        if depth > DEEPEST or left[0] < 0:
            raise FileError("is damaged: its lists are nested without end")
        if isinstance(part, Tensor):
            if id(part) not in known:
                known[id(part)] = change(part)
            return known[id(part)]
        if isinstance(part, dict):
            return {key: walk(entry, depth + 1) for key, entry in part.items()}
        if isinstance(part, list | tuple):
            entries = [walk(entry, depth + 1) for entry in part]
            return entries if isinstance(part, list) else tuple(entries)
        return part

    return walk(value, 0)
