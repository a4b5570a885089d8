"""Reading outlines: closed plane curves from SVG, GeoJSON and CSV files, as strokes: lines, Bezier curves and arcs."""
