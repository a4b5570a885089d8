"""Reports: tables and pictures of results."""

from cnf.reports.plots import plot_advection, plot_learning, plot_light_path, plot_slices, plot_tuning
from cnf.reports.tables import advection_table, light_path_table, text_table

__all__ = [
    "advection_table",
    "light_path_table",
    "plot_advection",
    "plot_learning",
    "plot_light_path",
    "plot_slices",
    "plot_tuning",
    "text_table",
]
