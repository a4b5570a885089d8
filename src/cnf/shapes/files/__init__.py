"""Files of points and meshes: read as data from strangers, written whole or not at all."""
