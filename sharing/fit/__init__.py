"""Whether models fit: memory of the GPU, and CPU, RAM and disk of its node."""
