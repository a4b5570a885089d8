"""Patches: a problem solved on cells that are refined until the equations hold between their points too."""
