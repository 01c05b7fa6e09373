"""How fast a model answers: a forecast from readings of its GPU, always with its range."""
