"""Rules by which AWS, Kubernetes and Helm reject calls: one table each."""
