"""`tandem init`: from a few questions to a stack file that works."""
