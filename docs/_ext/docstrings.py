"""Docstrings are written to be read in a terminal, with Markdown's backticks; here they become reStructuredText.

Whatever would be markup there and is not meant so, as the bars of `|L f - g|` or a name that ends in an underscore, is
escaped. Examples (`>>>`) and indented blocks stay as they are.
"""

import re

SPECIAL = re.compile(r"([*|\\]|_(?=\W|$))")


def plain(line: str) -> str:
    """One line of prose; code between backticks as such."""
    parts = re.split(r"(``?[^`]+``?)", line)
    return "".join(f"``{p.strip('`')}``" if i % 2 else SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def rewrite(lines: list[str]) -> list[str]:
    """The same docstring for the parser of Sphinx."""
    found: list[str] = []
    example = False
    for line in lines:
        starts = line.lstrip().startswith(">>>")
        example = starts or (example and bool(line.strip()))
        if starts and found and found[-1].strip() and not found[-1].lstrip().startswith((">>>", "...")):
            previous_is_output = any(entry.lstrip().startswith(">>>") for entry in _block(found))
            if not previous_is_output:
                found.append("")
        found.append(line if example else plain(line))
    return found


def _block(lines: list[str]) -> list[str]:
    """The lines since the last empty one."""
    block: list[str] = []
    for line in reversed(lines):
        if not line.strip():
            break
        block.append(line)
    return block


def process(app, what, name, thing, options, lines) -> None:
    lines[:] = rewrite(lines)


def setup(app):
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
