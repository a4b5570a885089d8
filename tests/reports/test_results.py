"""Folders of results: complete or absent, whatever happens to the run, the disk or the folder.

Every test starts from what a user has on disk and says what must be there in the end.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cnf.errors import FileError
from cnf.reports import results as module
from cnf.reports import staging
from cnf.reports.results import Results, check_target, publish, publish_files

WRITER = """
import sys, time
from pathlib import Path
from cnf.reports.results import publish
with publish(sys.argv[1], "test") as results:
    for k in range(3):
        (results.folder / f"{k}.txt").write_text(sys.argv[2])
        if k == 1:
            print("half", flush=True)
            sys.stdin.readline()
print("done", flush=True)
"""


def write(out: Path, content: dict[str, str], kind: str = "test") -> Results:
    with publish(out, kind) as made:
        for name, text in content.items():
            (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (made.folder / name).write_text(text)
    return made


def read(folder: Path) -> dict[str, str]:
    """All files but the record, hidden ones too."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.json"]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def start(out: Path, text: str) -> subprocess.Popen:
    """A run that waits after two of its three files."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out), text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "half\n"
    return process


def finish(process: subprocess.Popen) -> None:
    assert process.communicate("go\n", timeout=60)[0] == "done\n" and process.returncode == 0


# -- one run ---------------------------------------------------------------------------------------------------------


def test_nothing_is_there_before_everything_is(tmp_path: Path):
    with publish(tmp_path / "new" / "out", "test") as made:
        (made.folder / "a").write_text("1")
        assert not (tmp_path / "new" / "out").exists()
        assert made.target == tmp_path / "new" / "out" and made.folder.parent == tmp_path / "new"
    assert read(tmp_path) == {"new/out/a": "1"}


def test_the_record_names_the_run_and_its_files(tmp_path: Path):
    """SHA-256 by hashlib of the text itself."""
    made = write(tmp_path / "out", {"a": "1", "sub/b": "2"})
    record = json.loads((tmp_path / "out" / "run.json").read_text())["test"]
    assert record["run"] == made.run.identifier and record["command"] == made.run.command
    assert record["files"] == {"a": hashlib.sha256(b"1").hexdigest(), "sub/b": hashlib.sha256(b"2").hexdigest()}
    assert write(tmp_path / "out", {}).run.identifier != made.run.identifier


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_earlier_run_goes_as_a_whole_and_foreign_files_stay(
    tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
):
    """Also where the system cannot exchange two folders in one step."""
    if not exchanges:
        monkeypatch.setattr(staging, "exchange", lambda one, other: False)
    out = tmp_path / "out"
    write(out, {"a": "1", "old": "1", "series/0": "1", "gone/0": "1"})
    (out / "notes.txt").write_text("mine")
    (out / "series" / "mine").write_text("mine")
    (out / "data" / "deep").mkdir(parents=True)
    (out / "data" / "deep" / "x").write_text("mine")
    (out / "link").symlink_to("nowhere")
    write(out, {"a": "2", "series/1": "2"})
    kept = {"notes.txt": "mine", "series/mine": "mine", "data/deep/x": "mine"}
    assert read(out) == {"a": "2", "series/1": "2", **kept}
    assert (out / "link").is_symlink() and not (out / "gone").exists()
    assert os.listdir(tmp_path) == ["out"]


def test_results_of_another_command_stay(tmp_path: Path):
    out = tmp_path / "out"
    write(out, {"a": "1", "old": "1"}, "one")
    write(out, {"b": "2"}, "other")
    write(out, {"a": "3"}, "one")
    assert read(out) == {"a": "3", "b": "2"}
    assert set(json.loads((out / "run.json").read_text())) == {"one", "other"}


def test_files_without_a_record_go_if_they_are_named(tmp_path: Path):
    """A folder of an earlier version of cnf has no record."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "tuning.png").write_text("0")
    (out / "mine").write_text("0")
    with publish(out, "test", replaces=["tuning.png"]) as made:
        (made.folder / "a").write_text("1")
    assert read(out) == {"a": "1", "mine": "0"}


def test_a_record_cannot_name_files_elsewhere(tmp_path: Path):
    """run.json may come from a stranger: it names paths outside, and a folder of the user."""
    out = tmp_path / "out"
    write(out, {"a": "1"})
    (tmp_path / "precious").write_text("mine")
    (out / "precious").mkdir()
    (out / "precious" / "x").write_text("mine")
    files = dict.fromkeys(["../precious", str(tmp_path / "precious"), "precious", "a"], "")
    (out / "run.json").write_text(json.dumps({"test": {"run": "x", "files": files}, "bad": 3}))
    write(out, {"a": "2"})
    assert (tmp_path / "precious").read_text() == "mine" and (out / "precious" / "x").read_text() == "mine"


def test_a_folder_of_the_user_under_our_name_is_kept(tmp_path: Path):
    (tmp_path / "out" / "a").mkdir(parents=True)
    (tmp_path / "out" / "a" / "x").write_text("mine")
    write(tmp_path / "out", {"a": "1"})
    assert read(tmp_path / "out") == {"a": "1", "a-kept/x": "mine"}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, FileError])
def test_failure_leaves_the_old_results(tmp_path: Path, failure: type[BaseException]):
    out = tmp_path / "out"
    write(out, {"a": "1", "b": "1"})
    with pytest.raises(failure), publish(out, "test") as made:
        (made.folder / "a").write_text("2")
        raise failure("no")
    assert read(out) == {"a": "1", "b": "1"}
    assert os.listdir(tmp_path) == ["out"]


def test_a_failing_exchange_leaves_the_old_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "out"
    write(out, {"a": "1"})

    def refuse(one: Path, other: Path) -> bool:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(staging, "exchange", refuse)
    with pytest.raises(FileError, match=r"cannot write into .*out: Read-only"):
        write(out, {"a": "2"})
    assert read(out) == {"a": "1"} and os.listdir(tmp_path) == ["out"]


def test_messages_name_the_folder_that_was_asked_for(tmp_path: Path):
    with pytest.raises(FileError) as caught, publish(tmp_path / "out", "test") as made:
        raise FileError(f"cannot write {made.folder / 'a'}: No space left on device")
    assert str(caught.value) == f"cannot write {tmp_path / 'out' / 'a'}: No space left on device"


def test_parts_of_results_are_published_with_the_whole(tmp_path: Path):
    with publish(tmp_path / "out", "whole") as whole:
        with publish(whole.within("part"), "part") as part:
            (part.folder / "a").write_text("1")
        assert not (tmp_path / "out").exists()
        assert part.published([part.folder / "a"]) == [tmp_path / "out" / "part" / "a"]
    assert read(tmp_path) == {"out/part/a": "1"} and part.run == whole.run


# -- kills, interrupts, several processes ----------------------------------------------------------------------------


def test_a_kill_between_two_files_leaves_the_old_results_and_its_litter_is_swept(tmp_path: Path):
    out = tmp_path / "out"
    write(out, {"0.txt": "old", "1.txt": "old"})
    process = start(out, "new")
    process.kill()
    process.communicate(timeout=60)
    assert read(out) == {"0.txt": "old", "1.txt": "old"}
    assert len(os.listdir(tmp_path)) == 2  # what it had written is hidden beside it
    check_target(out)
    assert os.listdir(tmp_path) == ["out"] and read(out) == {"0.txt": "old", "1.txt": "old"}


def test_two_runs_do_not_mix_and_the_last_to_finish_wins(tmp_path: Path):
    """The unfinished files of a run in another process are not taken for litter by the second."""
    out = tmp_path / "out"
    first = start(out, "first")
    write(out, {f"{k}.txt": "second" for k in range(3)})
    assert set(read(out).values()) == {"second"}
    finish(first)
    assert read(out) == {f"{k}.txt": "first" for k in range(3)}
    assert os.listdir(tmp_path) == ["out"]


def test_many_runs_at_once(tmp_path: Path):
    """Whoever wins, its three files are there and those of the others are not; the user's file survives them all."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    failures: list[BaseException] = []

    def run(k: int) -> None:
        try:
            for _ in range(5):
                write(out, {f"{k}_{n}": str(k) for n in range(3)})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = read(out)
    assert found.pop("mine") == "mine"
    assert len(found) == 3 and len(set(found.values())) == 1
    assert os.listdir(tmp_path) == ["out"]


def test_a_kill_right_after_the_exchange_loses_no_foreign_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The user's files are then still in the hidden folder; the next run puts them back."""
    out = tmp_path / "out"
    write(out, {"a": "1", "old": "1"})
    (out / "mine").write_text("mine")
    with monkeypatch.context() as killed:
        killed.setattr(staging, "carry", lambda *_: None)
        write(out, {"a": "2"})
    assert read(out) == {"a": "2"}
    check_target(out)
    assert read(out) == {"a": "2", "mine": "mine"} and os.listdir(tmp_path) == ["out"]


def test_a_kill_between_two_renames_is_mended(tmp_path: Path):
    """Where folders cannot be exchanged, the old one is aside for a moment."""
    out = tmp_path / "out"
    write(out, {"a": "1"})
    out.rename(tmp_path / ".out.cnf-0123456789abcdef-old")
    check_target(out)
    assert read(out) == {"a": "1"}


def test_only_our_own_litter_is_swept(tmp_path: Path):
    """Other names, files, links and folders of others stay."""
    for name in (".out.cnf-short", ".other.cnf-0123456789abcdef", "out.cnf-0123456789abcdef"):
        (tmp_path / name).mkdir()
        (tmp_path / name / staging.UNFINISHED).touch()
    (tmp_path / ".out.cnf-aaaaaaaaaaaaaaaa").write_text("a file")
    (tmp_path / ".out.cnf-bbbbbbbbbbbbbbbb").symlink_to(tmp_path / ".out.cnf-short")
    before = sorted(os.listdir(tmp_path))
    check_target(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == before


def test_without_locks_only_old_litter_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(staging, "lock_folder", lambda path: None)
    young, old = (tmp_path / f".out.cnf-{c * 16}" for c in "ab")
    for path in (young, old):
        path.mkdir()
        (path / staging.UNFINISHED).touch()
    os.utime(old, (0, 0))
    check_target(tmp_path / "out")
    assert young.exists() and not old.exists()


def test_interrupts_wait_until_the_results_are_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C in the middle of the exchange: it comes through afterwards, and the new results are whole."""
    out = tmp_path / "out"
    write(out, {"a": "1"})
    (out / "mine").write_text("mine")
    real = staging.carry

    def carry(*arguments: object) -> None:
        signal.raise_signal(signal.SIGINT)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "carry", carry)
    with pytest.raises(KeyboardInterrupt):
        write(out, {"a": "2"})
    assert read(out) == {"a": "2", "mine": "mine"} and os.listdir(tmp_path) == ["out"]


# -- where results may go --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path: Path, umask: int):
    from cnf.files import write_atomically

    before = os.umask(umask)
    try:
        with publish(tmp_path / "out", "test") as made:
            write_atomically(made.folder / "a", lambda path: path.write_text("1"))
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "out", *(tmp_path / "out").iterdir())}
    assert modes == {"out": 0o777 & ~umask, "a": 0o666 & ~umask, "run.json": 0o666 & ~umask}


def test_permissions_of_the_folder_stay(tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o750)
    with publish(out, "test") as made:
        assert stat.S_IMODE(made.folder.stat().st_mode) == 0o750  # others cannot look in meanwhile, either
    assert stat.S_IMODE(out.stat().st_mode) == 0o750


def test_a_link_stays_a_link(tmp_path: Path):
    (tmp_path / "disk" / "real").mkdir(parents=True)
    (tmp_path / "out").symlink_to("disk/real")
    write(tmp_path / "out", {"a": "1"})
    assert (tmp_path / "out").is_symlink() and read(tmp_path / "disk" / "real") == {"a": "1"}


def test_dots_in_a_path(tmp_path: Path):
    write(tmp_path / "absent" / ".." / "out", {"a": "1"})
    assert read(tmp_path) == {"out/a": "1"}


def refusal(out: object) -> str:
    """What is said before the work; one line."""
    with pytest.raises(FileError) as caught:
        check_target(out)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("cannot write into ")
    return str(caught.value)


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    assert "it is a file" in refusal(tmp_path / "file")
    assert f"{tmp_path / 'file'} is a file" in refusal(tmp_path / "file" / "out" / "deep")
    assert "which is not there" in refusal(tmp_path / "dangling")
    assert "too long" in refusal(tmp_path / ("x" * 300))
    assert "null" in refusal("a\0b")
    assert "no folder can be made in /proc (" in refusal("/proc/out")
    monkeypatch.chdir(tmp_path)
    for here in (".", "..", "/", tmp_path):
        assert "the current folder or one above" in refusal(here)
    assert "mount point" in refusal("/proc")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_protected_folder_is_refused(tmp_path: Path):
    out = tmp_path / "out"
    write(out, {"a": "1"})
    out.chmod(0o555)
    assert "Permission denied" in refusal(out)
    out.chmod(0o755)
    tmp_path.chmod(0o555)
    assert "Permission denied" in refusal(out)
    tmp_path.chmod(0o755)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_locked_disk_is_found_before_the_work(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch):
    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.os, "fsync", fail)
    assert os.strerror(number) in refusal(tmp_path / "out")
    assert not os.listdir(tmp_path)


def test_checking_leaves_nothing(tmp_path: Path):
    write(tmp_path / "out", {"a": "1"})
    check_target(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"] and read(tmp_path / "out") == {"a": "1"}


# -- a few files of one run --------------------------------------------------------------------------------------------


def test_files_of_one_run_come_together(tmp_path: Path):
    files = [tmp_path / name for name in ("mesh.ply", "mesh.json")]
    (tmp_path / "mine").write_text("mine")
    for text in "12":
        with publish_files(files) as made:
            for file in files:
                (made.folder / file.name).write_text(text)
            assert set(made.record()["files"]) == {"mesh.ply", "mesh.json"}  # type: ignore[call-overload]
    with pytest.raises(KeyboardInterrupt), publish_files(files) as made:
        (made.folder / "mesh.ply").write_text("3")
        raise KeyboardInterrupt
    assert read(tmp_path) == {"mesh.ply": "2", "mesh.json": "2", "mine": "mine"}
