"""What a judged stack would create, and how long it takes, before anything is deployed; `plan` and others use it."""
