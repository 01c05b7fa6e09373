"""`tandem modes`: every sharing mode on every instance type."""
