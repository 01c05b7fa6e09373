"""`tandem choose`: the cheapest setups that hold given models."""
