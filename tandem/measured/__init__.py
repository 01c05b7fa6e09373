"""What a benchmark measured: the file, the figures, the comparison."""
