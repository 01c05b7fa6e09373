"""An emulated cloud for Pulumi programs: no AWS account, no network.

`preview/` runs a program in this process and returns its graph. `world/` is a cloud with a memory and the rules of AWS
and Kubernetes. `engine/` serves it to the real `pulumi`. `cloud/` has the replies that both use.
"""
