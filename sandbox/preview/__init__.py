"""Door 1: runs a program in this process and returns its graph, without engine and without a cloud that remembers."""
