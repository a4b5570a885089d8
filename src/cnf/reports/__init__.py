"""Reports: what the slices share to show results: tables, the styles of plots and pages, formulas, the terminal."""
