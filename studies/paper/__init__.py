"""The paper as a whole: `python -m studies paper` runs every study and writes docs/reproduction.md."""
