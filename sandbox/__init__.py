"""An emulated cloud for Pulumi programs: no AWS account, no network.

`preview/` runs a program in this process and returns its graph. `world/` is a cloud that remembers, with the rules of
AWS and Kubernetes; `engine/` serves it to the real `pulumi`. `cloud/` has the answers that both give.
"""
