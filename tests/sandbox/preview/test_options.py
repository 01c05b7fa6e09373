"""Every option of a resource, from the request that an SDK sends, under its name in Pulumi's schema."""

from google.protobuf import struct_pb2
from pulumi.runtime.proto import alias_pb2, resource_pb2

from sandbox.preview.options import from_request

URN = "urn:pulumi:dev::tandem::aws:ec2/vpc:Vpc::v"


def test_every_option_is_read_and_an_option_that_is_not_given_is_absent() -> None:
    request = resource_pb2.RegisterResourceRequest(type="aws:ec2/vpc:Vpc", name="v", custom=True)
    assert from_request(request).options == {}
    for name in ("ignoreChanges", "replaceOnChanges", "additionalSecretOutputs", "replace_with", "hideDiffs"):
        getattr(request, name).extend([name, "other"])
    for name in ("deletedWith", "importId", "version", "pluginDownloadURL"):
        setattr(request, name, f"a {name}")
    request.protect = request.retainOnDelete = request.deleteBeforeReplace = False
    request.deleteBeforeReplaceDefined = True
    request.customTimeouts.create = "5m"
    request.replacement_trigger.CopyFrom(struct_pb2.Value(string_value="again"))
    request.aliases.extend([alias_pb2.Alias(urn=URN), alias_pb2.Alias(spec=alias_pb2.Alias.Spec(name="old"))])
    request.hooks.before_create.extend(["one"])
    assert from_request(request).options == {
        "ignoreChanges": ("ignoreChanges", "other"),
        "replaceOnChanges": ("replaceOnChanges", "other"),
        "additionalSecretOutputs": ("additionalSecretOutputs", "other"),
        "replaceWith": ("replace_with", "other"),
        "hideDiffs": ("hideDiffs", "other"),
        "deletedWith": "a deletedWith",
        "import": "a importId",
        "version": "a version",
        "pluginDownloadURL": "a pluginDownloadURL",
        "protect": False,
        "retainOnDelete": False,
        "deleteBeforeReplace": False,
        "customTimeouts": {"create": "5m"},
        "replacementTrigger": "again",
        "aliases": (URN, {"name": "old"}),
        "hooks": {"before_create": ("one",)},
    }
