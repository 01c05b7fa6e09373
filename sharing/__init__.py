"""Rules: what can share a GPU, whether it fits, what it costs, whether it may run. No Pulumi, no network."""
