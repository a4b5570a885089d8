"""Report: what came of a reconstruction or a curve, in words, numbers and pictures."""
