"""Takes the images and charts of components from a private registry that has copies of them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi

from components.charts import RELEASE, merge_values
from sharing import artifacts
from sharing.sections.registry import correct, is_registry


def pull_from(registry: str | None) -> pulumi.ResourceTransformation:
    """A transformation for the options of a component, by which its images and charts come from `registry`.

    `registry` is a host and a path, e.g. `registry.example.com/tandem`. Raises `ValueError` for other values. With
    None, everything comes from public registries. Images of your own stay as they are, and so do values of a chart that
    you pass. `tandem images` lists what must be there.

    ```python
    import pulumi
    from tandem import OllamaModel, OllamaPair, OllamaPairArgs, pull_from

    args = OllamaPairArgs(models=[OllamaModel("llama2:7b")])
    mirrored = pulumi.ResourceOptions(transformations=[pull_from("registry.example.com/tandem")])
    pair = OllamaPair("models", args, mirrored)
    ```
    """
    if registry is None:
        return lambda _: None
    if not isinstance(registry, str):
        raise ValueError(f"registry must be text or None, not {registry!r}. Pass 'registry.example.com/tandem'.")
    if not is_registry(registry):
        fix = correct(registry) or "registry.example.com/tandem"
        raise ValueError(f"registry {registry!r} is not a host and a path in small letters. Pass {fix!r}.")

    def redirect(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("kubernetes:"):
            return None
        is_chart = args.type_ == RELEASE and str(args.props["chart"]).rpartition("/")[2] in _names("chart")
        props = _release(args.props, registry) if is_chart else _images(args.props, registry)
        return pulumi.ResourceTransformationResult(props, args.opts)

    return redirect


def _release(props: Mapping[str, Any], registry: str) -> dict[str, Any]:
    """The inputs of a release, with the chart in the registry and its images too."""
    chart = str(props["chart"]).rpartition("/")[2]
    given = props.get("values")
    values = (
        given.apply(lambda known: _values(chart, known, registry))
        if isinstance(given, pulumi.Output)
        else _values(chart, given, registry)
    )
    return {**props, "chart": f"oci://{registry}/charts/{chart}", "repository_opts": None, "values": values}


def _values(chart: str, given: Mapping[str, Any] | None, registry: str) -> dict[str, Any] | None:
    return merge_values(artifacts.redirect_chart(chart, registry), _images(given or {}, registry)) or None


def _images(value: Any, registry: str) -> Any:
    """The same with other references to our images, which are plain text at the key `image`."""
    if isinstance(value, Mapping):
        return {
            key: artifacts.redirect(inner, registry) if key == "image" and _is_ours(inner) else _images(inner, registry)
            for key, inner in value.items()
        }
    return [_images(inner, registry) for inner in value] if isinstance(value, list | tuple) else value


def _is_ours(value: Any) -> bool:
    return isinstance(value, str) and artifacts.name_of(value) in _names("image")


@cache
def _names(kind: str) -> frozenset[str]:
    """Images by their full names, or charts by the last parts of theirs."""
    names = [artifact.name for artifact in artifacts.known() if artifact.kind == kind]
    return frozenset(name if kind == "image" else name.rpartition("/")[2] for name in names)
