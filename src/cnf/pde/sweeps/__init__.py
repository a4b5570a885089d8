"""Sweeps: one problem for each of several values of its numbers; all answers, a table, pictures and a page come out."""
