"""The rules, by subject, and the table that lists them."""
