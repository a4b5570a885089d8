"""One script per package: it solves one engineering problem with one setting in a process of its own."""
