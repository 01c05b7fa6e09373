"""`tandem chat`: the two models talk to each other."""
