"""What AWS returns: ids, ARNs, computed attributes, answers to functions."""
