"""`tandem gpus`: the GPU instance types of the catalogue."""
