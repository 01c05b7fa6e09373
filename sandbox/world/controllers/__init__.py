"""What the controllers of AWS and Kubernetes do after a call, as far as the order of calls shows it."""
