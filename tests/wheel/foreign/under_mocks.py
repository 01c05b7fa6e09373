"""Runs the program's component and ours under Pulumi's stock mocks."""

import json

import pulumi


class Mocks(pulumi.runtime.Mocks):
    """Answers every request with its own inputs."""

    def new_resource(self, args):
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args):
        return {}


pulumi.runtime.set_mocks(Mocks(), project="foreign", stack="test")

from components import Bucket
from tandem import DevicePluginSharing, DevicePluginSharingArgs, PoolSharing, TimeSlicing


@pulumi.runtime.test
def both():
    pools = [PoolSharing(sharing=TimeSlicing(replicas=4), gpu="l4")]
    ours = DevicePluginSharing("ours", DevicePluginSharingArgs(pools=pools))
    theirs = Bucket("theirs")

    def show(resources):
        print(json.dumps({"theirs": theirs.pulumi_resource_type, "resources": list(resources)}))

    return ours.resource_names.apply(show)


both()
