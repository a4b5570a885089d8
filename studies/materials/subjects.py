"""Materials, subjects: which materials a study looks at.

In: a folder of data, names, or words for generated materials. Out: `Chosen` subjects: the most specular of the hundred
packed networks first, others evenly spread between them and the least specular, and tables of RGL's measurements; or
all there are. MERL's own files, if somebody has them, are chosen from likewise. Settings of methods were chosen on a
dozen of these materials (`TUNED_ON`); the others are held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cnf.errors import CnfError, FileError, nearest
from cnf.materials.commands.options import is_folder
from cnf.materials.reflectance import Material, find_merl, read_material
from cnf.materials.reflectance.reading import decode_archive, is_generated, name_table
from studies.options import find_data

NETWORKS = "brdf/nbrdf_merl100.npz"
TABLES = "brdf/rgl/rgl_*_merlgrid.npz"
MORE_NETWORKS = "brdf/nbrdf_rgl51.npz"
SPECULAR = 10
GLOSSY = 25.0  # mean reflectance in the mirror direction from which a material counts as specular
TUNED_ON = (
    *("chrome", "brass", "hematite", "red-metallic-paint", "specular-violet-phenolic", "black-phenolic"),
    *("silver-metallic-paint", "green-metallic-paint", "violet-rubber", "red-fabric2"),
    *("cc_iris_purple_gem", "vch_golden_yellow"),
)
MOST_SPECULAR, OTHERS, RGL = "NBRDF of MERL, ten most specular", "NBRDF of MERL, others", "RGL"
RGL_NETWORKS = "NBRDF of RGL"
MERL = "MERL"  # the measurements themselves
GENERATED, FILES = "Generated", "Files"
NETWORK = "network-"  # before the names of RGL's networks, for some of RGL's tables have the same
FILE = "merl-"  # before the names of MERL's files, for networks fitted to them have the same


@dataclass(frozen=True)
class Subject:
    """A material of a study: where it is read from, and which group it belongs to."""

    path: str
    name: str | None
    group: str

    def read(self) -> Material:
        return read_material(self.path, self.name)


@dataclass(frozen=True)
class Chosen:
    """A subject with the name that its material has, which files are called by."""

    subject: Subject
    name: str
    label: str


def is_held_out(name: str) -> bool:
    """Whether a material is none of the dozen that settings were chosen on."""
    return name.removeprefix(NETWORK).removeprefix(FILE) not in TUNED_ON


def find_measurements(data: Path | None) -> Path:
    """The folder of data, by default that of the environment variable CNF_DATA."""
    otherwise = ", or name materials with --material, such as --material ggx:gold:0.1"
    return find_data(data, NETWORKS, f"a folder with {NETWORKS} and {TABLES}", otherwise)


def rank_networks(data: Path) -> list[Chosen]:
    """The packed networks, the most specular first."""
    path = data / NETWORKS
    read = [make() for make in decode_archive(path).values()]
    order = sorted(read, key=lambda material: (-specularity(material), material.name))
    return [
        Chosen(Subject(str(path), m.name, MOST_SPECULAR if place < SPECULAR else OTHERS), m.name, m.label)
        for place, m in enumerate(order)
    ]


def find_tables(data: Path) -> list[Chosen]:
    """RGL's measurements on MERL's grid."""
    names = [(path, name_table(path)) for path in sorted(data.glob(TABLES))]
    return [Chosen(Subject(str(path), None, RGL), name, f"RGL {name}") for path, name in names]


def list_everything(data: Path) -> list[Chosen]:
    """All networks of MERL, the most specular first, those of RGL, and RGL's tables."""
    path = data / MORE_NETWORKS
    if not path.exists():
        raise CnfError(f"there is no {path}; leave --everything out, or get the packed networks of RGL")
    rgl = [make() for make in decode_archive(path).values()]
    networks = [Chosen(Subject(str(path), m.name, RGL_NETWORKS), NETWORK + m.name, m.label) for m in rgl]
    return [*rank_networks(data), *networks, *find_tables(data)]


def choose_subjects(data: Path, count: int) -> list[Chosen]:
    """The most specular networks, others evenly spread up to `count` in all, and all tables."""
    return [*spread(rank_networks(data), count, data / NETWORKS), *find_tables(data)]


def spread(ranked: Sequence[Chosen], count: int, where: Path) -> list[Chosen]:
    """`count` of them: the most specular, and others evenly spread over the rest."""
    if count > len(ranked):
        raise CnfError(f"{where} holds {len(ranked)} materials; {count} were asked for")
    first, rest = ranked[: min(count, SPECULAR)], ranked[SPECULAR:]
    more = count - len(first)
    places = [round((k + 0.5) * len(rest) / more - 0.5) for k in range(more)]
    return [*first, *(rest[place] for place in places)]


def verify_merl(folder: Path) -> list[Chosen]:
    """MERL's files in a folder, every one of them verified, in order of their names; anything else is refused."""
    if not is_folder(str(folder)):
        what = "is a file" if _is_file(str(folder)) else "is not there"
        raise FileError(f"--merl {folder} {what}; give the folder that holds MERL's .binary files")
    return [Chosen(Subject(str(f.path), None, MERL), FILE + f.name, f.label) for f in find_merl(folder, strict=True)]


def choose_merl(verified: Sequence[Chosen], names: Sequence[str], count: int | None, folder: Path) -> list[Chosen]:
    """Those named, as MERL or a study names them; or `count`, the most specular first; or all."""
    if count is not None:
        shine = {one.name: specularity(one.subject.read()) for one in verified}
        return spread(sorted(verified, key=lambda one: (-shine[one.name], one.name)), count, folder)
    known = {one.name.removeprefix(FILE): one for one in verified}
    wanted = [name.removeprefix(FILE) for name in names]
    for name in wanted:
        if name not in known:
            raise CnfError(f"MERL's {name!r} is not in {folder}; {len(known)} others are." + nearest(name, known))
    return [one for name, one in known.items() if name in wanted or not wanted]


def name_subjects(data: Path, names: Sequence[str]) -> list[Chosen]:
    """Networks and tables by name, in the order of `choose_subjects`."""
    known = {chosen.name: chosen for chosen in [*find_tables(data), *rank_networks(data)]}
    for name in names:
        if name not in known:
            raise CnfError(
                f"there is no material {name!r} in {data}; cnf material list {data / NETWORKS} shows those there are."
                + nearest(name, known)
            )
    groups = (MOST_SPECULAR, OTHERS, RGL)
    ranks = {name: (groups.index(chosen.subject.group), place) for place, (name, chosen) in enumerate(known.items())}
    return [known[name] for name in sorted(names, key=lambda name: ranks[name])]


def open_subject(words: str, group: str | None = None) -> tuple[Chosen, Material]:
    """A subject from words ("ggx:gold:0.1"), a file, or one of an archive ("FILE:NAME"); and its material."""
    if is_generated(words):
        path, name, kind = words, None, GENERATED
    else:
        before, _, after = words.rpartition(":")
        path, name, kind = (before, after, FILES) if before and _is_file(before) else (words, None, FILES)
    material = read_material(path, name)
    return Chosen(Subject(path, name, group or kind), material.name, material.label), material


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def check_distinct(chosen: Sequence[Chosen]) -> None:
    """Two materials of one name would share their files."""
    seen: dict[str, Chosen] = {}
    for one in chosen:
        other = seen.setdefault(one.name, one)
        if other is not one:
            raise CnfError(f"{other.label} and {one.label} are both called {one.name}; study them in two folders")


def specularity(material: Material) -> float:
    """Mean reflectance in the mirror direction over incidence up to 60 degrees: how specular a material is."""
    theta = torch.linspace(0.0, math.pi / 3, 25, dtype=torch.float64)
    angles = torch.stack([torch.zeros_like(theta), theta, torch.full_like(theta, math.pi / 2)], dim=1)
    known = material.valid(angles)
    return float(material(angles)[known].mean()) if bool(known.any()) else 0.0
