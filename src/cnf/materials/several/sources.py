"""Sources: every material in files, archives and folders, with a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnf.errors import CnfError
from cnf.files import hash_file
from cnf.materials.reflectance import list_materials
from cnf.materials.reflectance.material import simplify_name
from cnf.materials.reflectance.reading import ENDINGS, is_generated


@dataclass(frozen=True)
class Listed:
    """A material: the file or words it comes from, its name in an archive, and that of its folder."""

    path: str
    within: str | None
    name: str
    contents: str  # checksum of the file

    @property
    def identity(self) -> dict[str, str | None]:
        """What tells it from others, wherever its file is."""
        return {"material": self.within or self.name, "contents": self.contents or self.path}


def list_sources(given: Sequence[str]) -> list[Listed]:
    """Folders stand for the files of materials in them, archives for all they hold."""
    files = [file for one in given for file in (_list_folder(Path(one)) if Path(one).is_dir() else [one])]
    found: list[Listed] = []
    for file in files:
        contents = "" if is_generated(file) else hash_file(Path(file)) if Path(file).is_file() else ""
        names = list_materials(file)
        for name in names:
            own = simplify_name(file) if is_generated(file) else name
            found.append(Listed(file, name if len(names) > 1 else None, own, contents))
    return _told_apart(found)


def _list_folder(folder: Path) -> list[str]:
    found = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
    if not found:
        raise CnfError(f"{folder} holds no materials: there is no file in it that ends in {', '.join(ENDINGS)}")
    return found


def _told_apart(found: list[Listed]) -> list[Listed]:
    """Files of one name in several folders are named after these as well."""
    names = [one.name for one in found]
    return [
        Listed(one.path, one.within, f"{simplify_name(Path(one.path).parent.name)}-{one.name}", one.contents)
        if names.count(one.name) > 1 and Path(one.path).parent.name
        else one
        for one in found
    ]
