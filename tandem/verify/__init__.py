"""`tandem verify`: whether a stack that is up is as its file says."""
