"""Pages that nobody placed: a new `docs/NAME.md` comes where `docs/index.md` says `% unplaced`."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent
MARK = "% unplaced"


def placed() -> set[str]:
    """Names of the pages in any table of contents, as written: from the folder of the page that holds it."""
    found: set[str] = set()
    for page in DOCS.rglob("*.md"):
        folder = page.parent.relative_to(DOCS)
        for body in re.findall(
            r"^(?:`{3,}|:{3,})\{toctree\}\n(.*?)^(?:`{3,}|:{3,})$", page.read_text(), flags=re.M | re.S
        ):
            names = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith((":", "%"))]
            targets = [re.sub(r".*<(.*)>$", r"\1", name).removesuffix(".md") for name in names]
            found |= {(folder / target).as_posix() for target in targets}
    return found


def unplaced() -> list[str]:
    """Pages directly in `docs/` that are in no table of contents, sorted."""
    return sorted({page.stem for page in DOCS.glob("*.md")} - placed() - {"index"})


def place(app, docname: str, source: list[str]) -> None:
    if docname == "index":
        source[0] = source[0].replace(MARK, "\n".join(unplaced()))


def renew(app, env, added, changed, removed) -> list[str]:
    """The index is read anew whenever a page comes or goes."""
    return ["index"] if added or removed else []


def setup(app):
    app.connect("env-get-outdated", renew)
    app.connect("source-read", place)
    return {"parallel_read_safe": True}
