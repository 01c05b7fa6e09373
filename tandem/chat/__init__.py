"""`tandem chat`: a conversation between two models."""
