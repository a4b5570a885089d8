"""A basis trained for one initial state solves others."""
