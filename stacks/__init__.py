"""The program: from a stack file to resources. `stack_file` judges, `deploy` registers, `outputs` reports."""
