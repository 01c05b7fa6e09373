"""The measurements of a benchmark: the file, the figures, the comparison."""
