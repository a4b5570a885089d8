"""MathML: LaTeX as markup that browsers typeset themselves, without scripts or fonts from the network.

The conversion is left to `latex2mathml` (extra `viz`). What it returns is rebuilt from a list of known elements and
attributes, because it passes text and links of the LaTeX through; anything else is shown as escaped text.
"""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

ELEMENTS = frozenset(
    [
        *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mstyle", "mpadded", "mphantom"),
        *(
            "msub",
            "msup",
            "msubsup",
            "munder",
            "mover",
            "munderover",
            "mfrac",
            "msqrt",
            "mroot",
            "mtable",
            "mtr",
            "mtd",
        ),
    ]
)
ATTRIBUTES = frozenset(
    ("mathvariant", "stretchy", "fence", "form", "width", "displaystyle", "scriptlevel", "accent", "minsize", "maxsize")
)
VALUE = re.compile(r"-?[A-Za-z0-9.]{1,24}\Z")
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
LONGEST = 4000  # characters
FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "ln", "arctan", "arcsin", "arccos", "min", "max")
)


class NotMathML(Exception):  # noqa: N818 (never leaves this module)
    """The converter returned something that is not plain MathML."""


def is_available() -> bool:
    """True if formulas can be typeset."""
    try:
        import latex2mathml.converter  # noqa: F401
    except ImportError:
        return False
    return True


def typeset(latex: str) -> str:
    """Markup of a formula, one line per row (`;` or `\\\\` between them); escaped text where it cannot be converted."""
    rows = [row.strip() for row in re.split(r";|\\\\", latex) if row.strip()]
    if r"\begin" in latex:
        rows = [latex]
    found = [convert(row) for row in rows]
    if not rows or any(markup is None for markup in found):
        return f"<code>{html.escape(latex)}</code>"
    return "<br/>".join(markup for markup in found if markup)


def convert(latex: str) -> str | None:
    """MathML of one formula, or None if it cannot be converted safely."""
    if len(latex) > LONGEST:
        return None
    try:
        from latex2mathml.converter import convert as convert_latex
    except ImportError:
        return None
    # Numbers such as 1.5e-05 are meant as powers of ten; the converter would read the letter e.
    prepared = re.sub(
        r"(?<=[0-9.])[eE]([+-]?)0*([0-9]+)\b", lambda m: rf" \cdot 10^{{{m[1].replace('+', '')}{m[2]}}}", latex
    )
    try:
        tree = ElementTree.fromstring(convert_latex(prepared))
        clean = _rebuilt(tree)
    except Exception:  # the converter raises many kinds for input it does not know; the text is shown instead
        return None
    clean.set("displaystyle", "true")
    return ElementTree.tostring(clean, encoding="unicode")


def _rebuilt(node: ElementTree.Element) -> ElementTree.Element:
    tag = node.tag.removeprefix(NAMESPACE)
    if tag not in ELEMENTS or "\\" in (node.text or "") or (node.tail or "").strip():
        raise NotMathML(tag)
    known = {k: v for k, v in node.attrib.items() if k in ATTRIBUTES and VALUE.match(v)}
    if known.get("width") == "negativethinmathspace":
        known["width"] = "-0.167em"  # browsers no longer know the names of spaces
    made = ElementTree.Element(tag, known)
    made.text = node.text
    children = _joined([_rebuilt(child) for child in node])
    for k, child in enumerate(children):
        if k and child.tag == "mi" and child.text in FUNCTIONS and _ends_factor(children[k - 1]):
            made.append(ElementTree.Element("mspace", {"width": "0.167em"}))
        made.append(child)
    return made


def _joined(children: list[ElementTree.Element]) -> list[ElementTree.Element]:
    """Upright letters in a row are one name, not a product."""
    upright = [c.tag == "mi" and c.get("mathvariant") == "normal" and len(c.text or "") == 1 for c in children]
    if len(children) < 2 or not all(upright):
        return children
    name = ElementTree.Element("mi")
    name.text = "".join(c.text or "" for c in children)
    return [name]


def _ends_factor(before: ElementTree.Element) -> bool:
    return before.tag not in ("mo", "mspace") or before.text == ")"
