"""The `cnf` command."""
