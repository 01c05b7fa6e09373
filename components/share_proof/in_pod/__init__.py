"""What the pods of a share proof run: shipped to the cluster, so Python's standard library and each other alone."""
