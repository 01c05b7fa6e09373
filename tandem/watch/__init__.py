"""`tandem watch`: what goes on in a deployed stack."""
