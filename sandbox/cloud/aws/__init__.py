"""AWS's replies: ids, ARNs, computed attributes, results of functions."""
