"""The provider: answers Pulumi with the schema, and builds the component that a program in any language asks for."""

import json
import re
import sys
from typing import Any

import pulumi
import pulumi.provider

import components
from plugin.arguments import read_outputs
from plugin.build import build
from plugin.names import to_camel
from plugin.schema import FILE, arguments_of
from sharing.arguments import IN_LANGUAGE

NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
ASSIGNED = re.compile(r'\b([\w.\[\]]+)=(?=["\[{\d])')
OF_PYTHON = {
    "Pass the nodes as `runs_on`": "Pass `runsOn: { sharing, gpu, instanceTypes }`",
    " Or pass a `Model`.": "",
    " or None": "",
    "True or False": "true or false",
    "Args.": ".",
}
"""Words that mean nothing in other languages."""


class Provider(pulumi.provider.Provider):
    """Serves the components of `schema.json`."""

    def __init__(self) -> None:
        text = FILE.read_text(encoding="utf-8")
        self._schema = json.loads(text)
        super().__init__(self._schema["version"], text)

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> pulumi.provider.ConstructResult:
        """Registers the component and its resources."""
        known = self._schema["resources"].get(resource_type)
        if known is None:
            raise pulumi.RunError(f"{resource_type} is no component of tandem. Update the package.")
        component: Any = getattr(components, resource_type.rpartition(":")[2])
        words = IN_LANGUAGE.set(translate)
        try:
            made = component(name, build(arguments_of(component), inputs, component.__name__), options)
        except ValueError as error:
            # For any other class, the engine would print the lines of this program, too. Without a list of errors, the
            # SDK fails (pulumi 3.272, provider/server.py, create_grpc_invalid_properties_status).
            raise pulumi.InputPropertiesError(translate(str(error)), []) from error
        finally:
            IN_LANGUAGE.reset(words)
        state = {to_camel(one.name): getattr(made, one.name) for one in read_outputs(component)}
        return pulumi.provider.ConstructResult(made.urn, state)


def translate(message: str) -> str:
    """A message as other languages have it: `zoneNames`, `gpu: "t4"`, no `Args` and no None."""
    for python, anywhere in OF_PYTHON.items():
        message = message.replace(python, anywhere)
    return NAME.sub(lambda word: to_camel(word[0]), ASSIGNED.sub(r"\1: ", message))


def serve() -> None:
    """Runs until Pulumi ends it."""
    pulumi.provider.main(Provider(), sys.argv[1:])
