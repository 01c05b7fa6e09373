"""Turns the stack file, `Pulumi.<stack>.yaml`, into a `judge.Plan`, or reports its errors."""
