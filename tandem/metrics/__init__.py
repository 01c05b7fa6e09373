"""`tandem metrics`: what the models' servers know, as Prometheus metrics."""
