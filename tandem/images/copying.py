"""The shell script that copies a stack's images and charts to its registry, with crane and Helm.

Both keep digests: crane copies manifests as they are, with all platforms (go-containerregistry v0.22.1,
cmd/crane/doc/crane_copy.md), and Helm pushes packages as they are.
"""

from collections.abc import Iterable, Iterator

from sharing.artifacts import Artifact
from sharing.sections.registry import ecr_region


def copy_script(listed: Iterable[Artifact], registry: str) -> Iterator[str]:
    """The lines of the script. It is safe to run again."""
    host = registry.partition("/")[0]
    yield "#!/bin/sh"
    into = f"login {host} -u {'AWS' if ecr_region(registry) else 'USER'} --password-stdin"
    yield f"# Needs crane and helm, logged in: `crane auth {into}`, `helm registry {into}`."
    yield "set -eu"
    yield "folder=$(mktemp -d)"
    yield "trap 'rm -rf \"$folder\"' EXIT"
    for one in listed:
        copy = one.copy_in(registry)
        if region := ecr_region(registry):
            # ECR takes nothing into a repository that does not exist.
            account, name = host.partition(".")[0], copy.partition("/")[2]
            call = f"aws ecr {{}} --region {region} --registry-id {account} {{}} {name} >/dev/null"
            exists = call.format("describe-repositories", "--repository-names")
            yield f"{exists} 2>&1 || {call.format('create-repository', '--repository-name')}"
        if one.name.startswith("https://"):
            repository, _, chart = one.name.rpartition("/")
            yield f'helm pull {chart} --repo {repository} --version {one.version} --destination "$folder"'
            yield f'helm push "$folder/{chart}-{one.version}.tgz" oci://{registry}/charts'
        else:
            version = f"@{one.digest}" if one.pinned_by == "digest" else f":{one.version}"
            yield f"crane copy {one.name.removeprefix('oci://')}{version} {copy}:{one.version}"
