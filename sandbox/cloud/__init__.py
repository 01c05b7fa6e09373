"""What AWS, Kubernetes and eks.Cluster answer: ids, ARNs, computed attributes, children. Both doors ask here."""
