"""Turns the stack file, `Pulumi.<stack>.yaml`, into a `judge.Plan`, or reports all its errors at once."""
