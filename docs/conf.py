"""How the site is built: `make docs`. Pages are Markdown; pictures of gallery and tutorials are made by the build."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other cost more than they bring here

project = "cnf"
author = "The cnf authors"
copyright = "the cnf authors, MIT licence"
html_title = "cnf"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "unplaced",
    "problem_files",
    "import_graph",
]
# the gallery keeps programs and notebooks beside its pages; they are to be downloaded, not to be run again
exclude_patterns = ["_ext", "gallery/*.ipynb", "gallery/*.py", "**/sg_execution_times.rst"]
default_role = "code"
suppress_warnings = ["config.cache"]  # the order of the gallery is a function, which is no value to compare

# Markdown
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# Python
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries = False

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "capture_repr": (),
    "copyfile_regex": "",
    "write_computation_times": False,
}

# Looks
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "color-brand-visited": "#1f5fa8",
        "font-stack": "Inter, system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db8ff",
        "color-brand-content": "#7db8ff",
        "color-brand-visited": "#7db8ff",
    },
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# Addresses elsewhere are looked at by `make linkcheck` only.
linkcheck_timeout = 20
linkcheck_retries = 2
