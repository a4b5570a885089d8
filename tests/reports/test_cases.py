"""Cases: kept one by one, complete or absent; a folder is gone on with, and only by one run that asks for the same."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from cnf.errors import CnfError, ExecutionError, FileError
from cnf.execution import Executor, Failed, Here
from cnf.execution.executor import Shared, Work
from cnf.reports.cases import Case, CaseFolder, Made, do_cases, open_cases

CASES = [Case(f"n={k}", {"n": k}, k) for k in range(5)]


def square(piece: int) -> Made:
    """The square of a piece; two is refused."""
    if piece == 2:
        raise CnfError("two is not wanted\nat all")
    return Made({"square": piece**2}, {"text.txt": b"x" * piece})


class Ending(Executor):
    """Does three pieces; the worker of the second is lost, and after the third nothing goes on."""

    def run(self, work: Work, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        for number, piece in zip(range(3), pieces, strict=False):
            yield number, Failed("its process ended by signal 9") if number == 1 else work(piece)
        raise ExecutionError("nobody is there any more")

    def share(self, value: Any) -> Shared[Any]:
        raise NotImplementedError


def test_what_is_done_is_there_and_what_fails_has_a_reason(tmp_path: Path):
    """Four squares with their files, one reason; outcomes are told as they come, and returned in order."""
    told: list[str] = []
    with open_cases(tmp_path, "squares", {}, "each") as folder:
        found = do_cases(folder, square, CASES, Here(), lambda one: told.append(one.case.name))
    assert [one.row and one.row["square"] for one in found] == [0, 1, None, 9, 16]
    assert found[2].reason == "two is not wanted" and not found[2].lost
    assert told == [case.name for case in CASES]
    assert (tmp_path / "each" / "n=3" / "text.txt").read_text() == "xxx"
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == ["n=0", "n=1", "n=3", "n=4"]


def test_an_executor_that_ends_loses_nothing_that_was_done(tmp_path: Path):
    """Of four cases two are done, one lost its worker and one its executor; the next run does these two alone."""
    cases = [case for case in CASES if case.piece != 2]
    with open_cases(tmp_path, "squares", {}) as folder:
        found = do_cases(folder, square, cases, Ending())
        assert [(one.row is None, one.lost) for one in found] == [
            (False, False),
            (True, True),
            (False, False),
            (True, True),
        ]
        assert (found[1].reason, found[3].reason) == ("its process ended by signal 9", "nobody is there any more")
        again = do_cases(folder, square, cases, Here())
    assert [one.repeated for one in again] == [True, False, True, False]
    assert [one.row and one.row["square"] for one in again] == [0, 1, 9, 16]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"asked": {}, "case": {"n": 1}}', '{"asked": {}, "case": {"n": 2}, "row": {}}']
)
def test_a_damaged_record_counts_for_nothing(text: str, tmp_path: Path):
    with open_cases(tmp_path, "squares", {}) as folder:
        do_cases(folder, square, CASES[1:2], Here())
        assert folder.kept(CASES[1]) == {"square": 1}
        (tmp_path / "n=1" / "case.json").write_text(text)
        assert folder.kept(CASES[1]) is None
        assert not do_cases(folder, square, CASES[1:2], Here())[0].repeated


def test_what_was_changed_since_is_done_again(tmp_path: Path):
    """A row, a file, a file that is gone: each of them makes its own case count for nothing, and is put right."""
    with open_cases(tmp_path, "squares", {}) as folder:
        do_cases(folder, square, CASES, Here())
    record = tmp_path / "n=0" / "case.json"
    record.write_text(record.read_text().replace('"square": 0', '"square": 7'))
    (tmp_path / "n=1" / "text.txt").write_text("y")
    (tmp_path / "n=3" / "text.txt").unlink()
    with open_cases(tmp_path, "squares", {}) as folder:
        found = do_cases(folder, square, CASES, Here())
    assert [one.repeated for one in found] == [False, False, False, False, True]
    assert found[0].row == {"square": 0} and (tmp_path / "n=3" / "text.txt").read_text() == "xxx"


def test_another_run_and_another_question_are_refused(tmp_path: Path):
    """While one run is at work no other is; afterwards only one that asks for the same."""
    asked = {"the file": "a", "the seed": "0"}
    again = open_cases(tmp_path, "squares", asked)
    with open_cases(tmp_path, "squares", asked), pytest.raises(FileError, match="another run is at work"), again:
        pass
    with open_cases(tmp_path, "squares", {"the file": "a", "the seed": "0"}) as folder:
        assert isinstance(folder, CaseFolder)
    other = {"the file": "a", "the seed": "1", "the size": "2"}
    with pytest.raises(FileError, match="the seed, the size changed since"), open_cases(tmp_path, "squares", other):
        pass
    (tmp_path / "squares.json").write_text(json.dumps({"asked": 3}))
    with pytest.raises(FileError, match="damaged"), open_cases(tmp_path, "squares", {}):
        pass


def test_cases_of_one_name_are_refused(tmp_path: Path):
    """Also where names differ in case only: some file systems do not tell them apart."""
    with open_cases(tmp_path, "squares", {}) as folder, pytest.raises(CnfError, match="asked for twice"):
        do_cases(folder, square, [Case("a", {}, 1), Case("A", {}, 2)], Here())
