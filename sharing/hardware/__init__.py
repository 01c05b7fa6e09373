"""GPUs and instance types: what they are, where AWS offers them, and at what price."""
