"""`tandem bench`: measures models alone and together."""
