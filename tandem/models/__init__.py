"""`tandem models`: the catalogue, and the description of a model that it lacks."""
