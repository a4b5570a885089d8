"""Problem files as a page: `{problem-gallery}` shows every file of `examples/pde`, the quick ones with a picture.

Pictures are solved for in a process of their own, once: what has not changed keeps its picture. Links of the pages to
what lies outside `docs/` lead to the page of the site that shows it.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError

ROOT = Path(__file__).parent.parent.parent
FILES = ROOT / "examples" / "pde"
PICTURES = ROOT / "docs" / "gallery" / "problems"
LINKS = {
    "](../examples/pde)": "](problem_gallery.md)",
    "](../examples)": "](gallery/index.rst)",
    "](../CONTRIBUTING.md)": "](contributing.md)",
}
# These take more than about seven seconds of one processor.
SLOW = {"allen_cahn", "breather", "driven_cavity", "flame_front", "plate_with_hole"}
AT_ONCE = 2


class ProblemGallery(Directive):
    """A card per file: its title, its picture, and the file itself, folded."""

    def run(self) -> list[nodes.Node]:
        lines = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
        self.state.document.settings.env.note_dependency(__file__)
        for file in sorted(FILES.glob("*.toml"), key=lambda file: (file.stem in SLOW, file.stem)):
            self.state.document.settings.env.note_dependency(str(file))
            lines += card(file)
        lines.append("::::")
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, source="problem gallery"), self.content_offset, holder)
        return holder.children


def card(file: Path) -> list[str]:
    title = tomllib.loads(file.read_text()).get("title", file.stem.replace("_", " "))
    picture = [f":img-top: gallery/problems/{file.stem}.png", f":img-alt: {title}"] if file.stem not in SLOW else []
    return [
        f":::{{grid-item-card}} {title}",
        *picture,
        "",
        f"{{download}}`{file.name} <../examples/pde/{file.name}>`",
        ":::",
        "",
    ]


def draw(app) -> None:
    """Before anything is read: pictures that are missing or older than their file."""
    if app.builder.format != "html":
        return
    files = [str(file) for file in sorted(FILES.glob("*.toml")) if file.stem not in SLOW]
    program = [sys.executable, str(Path(__file__).with_name("problem_pictures.py")), str(PICTURES)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([*program, *files[k::AT_ONCE]], env=alone) for k in range(AT_ONCE)]
    codes = [process.wait() for process in running]
    if any(codes):
        raise ExtensionError("a problem file could not be solved and drawn; its error is above")


def redirect(app, docname: str, source: list[str]) -> None:
    for written, here in LINKS.items():
        source[0] = source[0].replace(written, here)


def setup(app):
    app.add_directive("problem-gallery", ProblemGallery)
    app.connect("builder-inited", draw)
    app.connect("source-read", redirect)
    return {"parallel_read_safe": True}
