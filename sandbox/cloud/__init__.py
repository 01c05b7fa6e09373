"""Replies of AWS, Kubernetes and eks.Cluster: ids, ARNs, computed attributes, children. Preview and engine use them."""
