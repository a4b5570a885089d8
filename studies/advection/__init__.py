"""The advection equation on scattered points: the paper's tables, baselines and curves."""
