"""`tandem watch`: what goes on in a stack that is up."""
