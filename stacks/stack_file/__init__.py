"""The stack file, `Pulumi.<stack>.yaml`: it becomes a `judge.Plan`, or all its errors at once."""
