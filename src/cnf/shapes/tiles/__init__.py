"""Clouds larger than memory: sorted into tiles on disk, reconstructed tile by tile, their meshes joined in a file."""
