"""Reports: what the slices share to show results: whole folders, tables, styles of plots and pages, the terminal."""
