"""Door 3: a real Kubernetes control plane on this machine, with nodes that only pretend."""
