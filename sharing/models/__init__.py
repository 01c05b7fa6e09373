"""Language models: the catalogue, their files, and how Ollama serves them."""
