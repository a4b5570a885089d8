"""Random nonlinear problems, and what certificates say of them looked at independently."""
