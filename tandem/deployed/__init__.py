"""The way to a stack that is up: its outputs, its cluster, forwarded ports, the Ollama servers, the AWS account."""
