"""The paper's experiments and comparisons: `python -m studies NAME`. Not part of the package."""
