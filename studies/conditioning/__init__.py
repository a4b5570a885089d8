"""Condition numbers of neural bases trained for nothing else."""
