"""Several materials: fitted one by one with the same settings, wherever there is room, kept as they are finished."""
