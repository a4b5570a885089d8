"""Reading files from strangers: what shapes and materials share."""
