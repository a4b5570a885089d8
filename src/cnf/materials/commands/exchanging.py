"""`cnf material export`, `list` and `check`: materials in files, for other renderers and from other people."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.materials.commands import options
from cnf.materials.commands.single import SourceArgument, material
from cnf.reports.terminal import say

if TYPE_CHECKING:
    from cnf.materials.fitting.sampling import Samples
    from cnf.materials.reflectance import Material, Table

ON_NODE = 1e-9  # encoded distance of a condition from a node at which it is one
COMPARED = 20_000  # directions at which an exported file is compared with its source


@material.command()
def export(
    source: SourceArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file: .binary (MERL) or .bsdf (RGL, Mitsuba).")],
    name: options.Name = None,
    convention: Annotated[
        str | None,
        typer.Option(metavar="nodes|centers", help="Where a reader of .binary puts the samples of the table (nodes)."),
    ] = None,
) -> None:
    """A material or a fit as a table that other renderers read; says how far the table is from it.

    A table interpolates between its nodes: of the conditions of a fit it holds those that lie on one, exactly.
    """
    import torch

    from cnf.files import check_writable
    from cnf.materials.fitting.folders import load_fit
    from cnf.materials.reflectance.merl import Table, check_convention, read_merl, tabulate, write_merl
    from cnf.materials.reflectance.rgl import read_rgl
    from cnf.materials.reflectance.rgl_writing import write_rgl

    ending = out.suffix.lower()
    if ending not in (".binary", ".bsdf"):
        raise CnfError(f"a material is exported as .binary (MERL) or .bsdf (RGL); got {str(out)!r}")
    if ending == ".bsdf" and convention is not None:
        raise CnfError("--convention is of .binary files; .bsdf files say where their samples are")
    grid = check_convention(convention or "nodes")
    shown = options.open_source(source, name, exact=True)
    if out.exists() and Path(source).exists() and out.samefile(source):
        raise CnfError(f"{out} is the input itself; give the file another name")
    check_writable(out)
    if ending == ".binary":
        write_merl(out, tabulate(shown, grid, dtype=torch.float64))
        written: Material = read_merl(out, grid)
    else:
        written = read_rgl(write_rgl(out, shown))
    say(f"{shown.label}: {out} ({out.stat().st_size} bytes)")
    say(compare_export(shown, written))
    if isinstance(written, Table) and options.is_folder(source):
        say(compare_conditions(load_fit(source).fit.conditions, written))


def compare_export(shown: Material, written: Material) -> str:
    """How far the file is from what it was made of, at random directions."""
    from cnf.materials.fitting.sampling import draw_samples
    from cnf.materials.reflectance.angles import decode
    from cnf.materials.reflectance.merl import Table

    samples = draw_samples(shown, COMPARED, seed=1)
    angles = decode(samples.points)
    known = written.valid(angles)
    first = known & (angles[:, 2] < math.pi)
    if not bool(first.any()):
        return "the file knows none of the directions looked at"
    error = (written(angles).double().log1p() - samples.logs).abs()
    text = (
        f"table against model, |difference of log(1 + f)| at {int(first.sum())} directions, half of them near the "
        f"highlight: mean {float(error[first].mean()):.1e}, largest {float(error[first].max()):.1e}"
    )
    other = known & ~first
    if isinstance(written, Table) and bool(other.any()):  # stored for half of phi_d only
        text += (
            f"; where light and eye change places, which such a table takes for equal: mean "
            f"{float(error[other].mean()):.1e}, largest {float(error[other].max()):.1e}"
        )
    return text


def compare_conditions(conditions: Samples, written: Table) -> str:
    """How many conditions are entries of the table, and how far these are from what was measured."""
    import torch

    from cnf.materials.reflectance.angles import decode, encode
    from cnf.materials.reflectance.merl import grid_angles, node_numbers

    numbers = node_numbers(decode(conditions.points), written.convention)
    apart = (encode(grid_angles(written.convention)[numbers]) - conditions.points).abs().amax(dim=1)
    there = apart < ON_NODE
    text = f"{int(there.sum())} of the {len(conditions)} conditions are entries of the table"
    if not bool(there.any()):
        return f"{text}: they lie between its nodes; cnf material fit --on-nodes yes puts them there"
    entries = written.values.reshape(-1, 3)[numbers[there]].double()
    error = (entries.log1p() - conditions.logs[there]).abs().max()
    return f"{text}, which have the measured log(1 + f) to {float(error):.1e}" + (
        "" if bool(torch.all(there)) else "; the others lie between its nodes"
    )


@material.command(hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def compare() -> None:
    """Several methods side by side: now python -m studies compare-materials, in a checkout."""
    raise CnfError("this is now python -m studies compare-materials, in a checkout; its options are the same")


@material.command("list")
def list_names(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of one or many materials.")],
) -> None:
    """Names of the materials in a file, one per line."""
    from cnf.materials.reflectance import list_materials

    say("\n".join(list_materials(file)))


@material.command()
def check(path: Annotated[Path, typer.Argument(help="A .binary file of MERL, or a folder of them.")]) -> None:
    """Whether MERL's files are whole and unchanged, by their published sizes and SHA-256.

    The exit code is 1 if a file is changed or of wrong size.
    """
    from cnf.materials.reflectance.checksums import check_merl

    found = check_merl(path)
    width = max(len(checked.name) for checked in found)
    for checked in found:
        say(f"{checked.name:<{width}}  {checked.status:<10}  {checked.message}")
    bad = sum(checked.status in ("changed", "wrong size") for checked in found)
    if bad:
        raise CnfError(f"{bad} of {len(found)} files changed or of wrong size; see the lines above")
