"""Reading files from strangers: what the slices share."""
