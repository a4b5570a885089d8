"""The problems of the comparison with other packages, and one script per package, each run by its own Python."""
