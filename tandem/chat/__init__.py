"""`tandem run` and `tandem chat`: conversations, of you with a model and of two models."""
