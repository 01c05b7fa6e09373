"""`tandem open`: the web page of a stack in the user's browser."""
