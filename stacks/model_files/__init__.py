"""What decides a model's memory, read from a GGUF file, from its URL, or from a registry, and kept."""
