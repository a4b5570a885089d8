"""Measurements of the library's figures; ratios are taken side by side in one run."""
