"""Runs a program in this process and returns its graph, without the engine and without any state."""
