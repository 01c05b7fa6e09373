"""Rules: which models can share a GPU, whether they fit, and the cost. No Pulumi, no network."""
