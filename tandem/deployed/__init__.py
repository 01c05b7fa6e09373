"""The way to a deployed stack: its outputs, its cluster, forwarded ports, the Ollama servers."""
