"""What `tandem bench` writes: the result file, its figures, and the comparison of results."""
