"""Pictures of problem files, one per file: `python docs/_ext/problem_pictures.py FOLDER FILE...` solves and draws them.

Curves for one coordinate, a map for two, the middle section for three; of several channels the first. A file that has
its picture already, and has not changed since, is left alone.
"""

import hashlib
import sys
import warnings
from pathlib import Path

SIDE = {1: 401, 2: 161, 3: 61}  # nodes along every coordinate


def draw(file: Path, picture: Path) -> None:
    """Solve the problem and draw its field."""
    from matplotlib import pyplot as plt

    import cnf

    answer = cnf.Problem.read(file).solve()
    names = answer.problem.space.coordinates
    grid = answer.grid(SIDE[len(names)])
    values = grid.values.detach().reshape(*grid.shape, -1)
    figure, axis = plt.subplots(figsize=(3.6, 2.7), layout="constrained")
    axes = list(grid.axes)
    if len(names) == 1:
        axis.plot(axes[0], values)
    else:
        first = values[..., 0]
        if len(names) == 3:  # the middle of the last coordinate, which is time if there is time
            first, axes = first[:, :, first.shape[2] // 2], axes[:2]
        shown = axis.pcolormesh(*axes, first.T, cmap="viridis", shading="gouraud", rasterized=True)
        figure.colorbar(shown, ax=axis, shrink=0.85)
        axis.set_ylabel(names[1])
        if names[1] != "t" and "t" not in names[:2]:
            axis.set_aspect("equal")
    axis.set_xlabel(names[0])
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def mark(file: Path) -> str:
    """What a picture was made from: the file, and this program."""
    return hashlib.sha256(file.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def main(folder: Path, files: list[Path]) -> None:
    """Draw what is not there."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # a problem that is not met says so on its page
    for file in files:
        picture, made_from = folder / f"{file.stem}.png", folder / f"{file.stem}.sha256"
        if not (picture.exists() and made_from.exists() and made_from.read_text() == mark(file)):
            draw(file, picture)
            made_from.write_text(mark(file))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
