"""`tandem verify`: whether a deployed stack matches its file."""
