"""Fitting: compact fields that reproduce chosen measurements exactly and all others closely."""
