"""What a run changes in its process while it lasts, and puts back."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pulumi.runtime.resource
from pulumi.runtime.proto import source_pb2

# Names (or beginnings) of what the Pulumi, AWS and Kubernetes SDKs read from the environment as defaults of arguments,
# provider settings and config (pulumi 3.272, pulumi_aws 7.51, pulumi_kubernetes 4.34).
HIDDEN_VARIABLES = ("AWS_", "KUBE", "PULUMI_")


@contextmanager
def _environment() -> Iterator[None]:
    """Hides the variables that SDKs would read, and takes back what a program sets."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(HIDDEN_VARIABLES):
            del os.environ[name]
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stops the cyclic garbage collector.

    A run makes 2000 objects a resource and frees hardly any before it ends. Collections then cost as much as the run:
    652 resources took 1.45 s with them and 0.76 s without, and only without does time grow in step with resources.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _no_source_positions() -> Iterator[None]:
    """Stops the SDK from walking the stack for each resource to tell the engine where it was made: nobody reads that.

    Costs a fifth of a run from a script and half of one from pytest, whose stacks are deep.
    """
    original: Callable[[], source_pb2.StackTrace] | None = getattr(pulumi.runtime.resource, "_get_stack_trace", None)
    if original is None:  # another SDK version: slower, no more
        yield
        return
    pulumi.runtime.resource._get_stack_trace = source_pb2.StackTrace
    try:
        yield
    finally:
        pulumi.runtime.resource._get_stack_trace = original


@contextmanager
def _no_noise() -> Iterator[None]:
    """Keeps quiet about coroutines of the SDK that nobody awaits any more once a run has failed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"coroutine 'Output\.", RuntimeWarning)
        yield


@contextmanager
def prepared() -> Iterator[None]:
    """Around a run."""
    with _environment(), _no_collection(), _no_source_positions(), _no_noise():
        yield
