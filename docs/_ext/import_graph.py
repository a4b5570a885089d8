"""`{import-graph}`: the parts of `src/cnf` and who imports whom, read from the code and drawn as SVG.

Rows follow from the imports: a part lies below all that take from it. What follows from other arrows is left out.
"""

import ast
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

SOURCE = Path(__file__).parent.parent.parent / "src" / "cnf"
FACE = {
    "__init__",
    "moved",
    "domains",
    "tuning",
    "kernels",
    "encoders",
    "losses",
}  # public names of what lies elsewhere
SMALL = {"errors", "late", "memory", "telling", "threads", "version"}
FIELD = {"solution", "settling", "solving", "stopping", "implicit", "newton", "nonlinear", "field", "loading"}
WIDTH, HEIGHT, GAP, ROW = 108, 34, 16, 74


def part(name: str) -> str:
    """The part that a folder or file belongs to; the files around the field are one."""
    return "field" if name in FIELD else name


def edges() -> dict[str, set[str]]:
    """{part: parts that it imports}, without those that every part uses."""
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        own = part(file.relative_to(SOURCE).with_suffix("").parts[0])
        if own in FACE | SMALL:
            continue
        used = found.setdefault(own, set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cnf"):
                words = node.module.split(".")[1:] or [alias.name for alias in node.names]
                used |= {part(words[0])} - FACE - SMALL - {own}
    return {own: {name for name in used if name in found} for own, used in found.items()}


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without arrows that follow from others."""

    @cache
    def below(name: str) -> frozenset[str]:
        return frozenset().union(*({other} | below(other) for other in graph[name]))

    return {
        own: {name for name in used if not any(name in below(o) for o in used - {name})} for own, used in graph.items()
    }


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """The row of every part: one more than the highest that it imports."""

    @cache
    def level(name: str) -> int:
        return 1 + max(map(level, graph[name]), default=-1)

    return {name: level(name) for name in graph}


def placed(graph: dict[str, set[str]]) -> dict[str, tuple[float, float]]:
    """The middle of every box: rows from the top down, each ordered by what its parts import."""
    rows: dict[int, list[str]] = {}
    for name, level in sorted(levels(graph).items()):
        rows.setdefault(level, []).append(name)
    across: dict[str, float] = {}
    for level in sorted(rows):
        wanted = {n: sum(across[o] for o in graph[n]) / len(graph[n]) if graph[n] else 0.0 for n in rows[level]}
        ordered = sorted(rows[level], key=lambda name: wanted[name])
        for number, name in enumerate(ordered):
            across[name] = (number - (len(ordered) - 1) / 2) * (WIDTH + GAP)
    top = max(rows)
    return {name: (across[name], (top - levels(graph)[name]) * ROW) for name in graph}


def drawing() -> str:
    graph = reduced(edges())
    at = placed(graph)
    left, right = min(x for x, _ in at.values()) - WIDTH / 2 - 4, max(x for x, _ in at.values()) + WIDTH / 2 + 4
    high = max(y for _, y in at.values()) + HEIGHT + 8
    lines = []
    for name, used in sorted(graph.items()):
        x, y = at[name]
        for other in sorted(used):
            to, down = at[other]
            bend = (down - y) / 2
            lines.append(
                f'<path d="M {x} {y + HEIGHT / 2} C {x} {y + bend}, {to} {down - bend}, {to} {down - HEIGHT / 2}"/>'
            )
    boxes = [
        f'<rect x="{x - WIDTH / 2}" y="{y - HEIGHT / 2}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{x}" y="{y + 4.5}">{name}</text>'
        for name, (x, y) in sorted(at.items())
    ]
    return (
        f'<svg class="import-graph" role="img" aria-label="parts of cnf and their imports" '
        f'viewBox="{left} {-HEIGHT / 2 - 4} {right - left} {high}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


class ImportGraph(Directive):
    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", drawing(), format="html")]


def setup(app):
    app.add_directive("import-graph", ImportGraph)
    return {"parallel_read_safe": True}
