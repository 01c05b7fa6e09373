"""`tandem models`: the catalogue, and descriptions of other models."""
