"""Choices: the names of what a tuning may be asked for."""

OBJECTIVES = ("held-out", "leave-one-out", "paper")
