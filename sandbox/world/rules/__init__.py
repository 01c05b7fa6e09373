"""What AWS, Kubernetes and Helm refuse: a table for each of them."""
