"""`tandem plan`: whether a stack works, what it creates and costs, and what becomes of the one that runs."""
