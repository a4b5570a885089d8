"""Soft and constrained models of many materials."""
