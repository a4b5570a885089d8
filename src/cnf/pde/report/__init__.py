"""Report: an answer as tables, pictures, data files and one page."""
