"""Report: tables, curves, lobes and pictures of fitted materials."""
