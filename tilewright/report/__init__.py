"""Results on paper: aligned tables, units, charts, and files that are whole or absent."""
