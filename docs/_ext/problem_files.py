"""Links of the pages to what lies outside `docs/` lead to the page of the site that shows it."""

LINKS = {
    "](../examples/pde)": "](problem_gallery.md)",
    "](../examples)": "](gallery/index.rst)",
    "](../CONTRIBUTING.md)": "](contributing.md)",
}


def redirect(app, docname: str, source: list[str]) -> None:
    for written, here in LINKS.items():
        source[0] = source[0].replace(written, here)


def setup(app):
    app.connect("source-read", redirect)
    return {"parallel_read_safe": True}
