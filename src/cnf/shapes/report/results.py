"""All that comes of a reconstruction, in files beside each other: mesh, picture, page to turn it around, and numbers.

In come a `Reconstruction` and where its mesh goes; out go all files or none of them. Pictures and pages of an earlier
run that this one does not make anew would be taken for its own, and go.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cnf.files import as_path, hash_file
from cnf.reports.results import publish_files
from cnf.reports.staging import read_own_record
from cnf.shapes.files.writing import write_mesh
from cnf.shapes.reconstruction.reconstruct import Reconstruction
from cnf.shapes.report.summary import draw_reconstruction, write_summary
from cnf.shapes.report.viewer import write_viewer

PICTURE, PAGE, NUMBERS = ".png", ".html", ".json"


@dataclass(frozen=True)
class Look:
    """How a surface is shown: which of its axes is up, turned by so many degrees, as a picture, as a page, or both.

    >>> cnf.shapes.Look(title="A knot", up="z", viewer=False).picture
    True
    """

    title: str = ""  # that of the file, if empty
    up: str = "y"
    turn: float = 0.0
    picture: bool = True
    viewer: bool = True


def write_results(made: Reconstruction, path: object, look: Look | None = None) -> list[Path]:
    """Write the mesh, and beside it a picture (.png), a page that turns it (.html) and all numbers (.json).

    The ending of `path` says how the mesh is written. All files appear together, or none.

    >>> cloud = cnf.shapes.sample_knot(300)
    >>> made = cnf.reconstruct(cloud, resolution=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     look = cnf.shapes.Look(picture=False, viewer=False)
    ...     sorted(path.name for path in cnf.shapes.write_results(made, f"{folder}/knot.ply", look))
    ['knot.json', 'knot.ply']
    """
    target, shown = as_path(path), look or Look()
    title = shown.title or target.stem
    files = list_files(target, shown)
    with publish_files(files, find_earlier(target, files)) as results:
        write_mesh(made.mesh, results.folder / target.name)
        if shown.picture:
            draw_reconstruction(made, results.folder / target.with_suffix(PICTURE).name, shown.up, shown.turn, title)
        if shown.viewer:
            write_viewer(made, results.folder / target.with_suffix(PAGE).name, shown.up, shown.turn, title)
        write_summary(made, results.folder / files[-1].name, results.record())
    return files


def list_files(target: Path, look: Look) -> list[Path]:
    """The mesh, what shows it, and its numbers; these last, for they have the checksums of the others."""
    shown = [ending for ending, wanted in ((PICTURE, look.picture), (PAGE, look.viewer)) if wanted]
    return [target, *(target.with_suffix(ending) for ending in (*shown, NUMBERS))]


def find_earlier(target: Path, files: list[Path]) -> list[Path]:
    """Picture and page of an earlier run that are not made anew; what somebody else put there stays."""
    found = []
    for file in (target.with_suffix(ending) for ending in (PICTURE, PAGE)):
        try:
            known = read_own_record(target.with_suffix(NUMBERS))[file.name]
            if file not in files and hash_file(file) == known:
                found.append(file)
        except (OSError, LookupError):
            continue
    return found
