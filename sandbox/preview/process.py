"""Temporary changes to the process during a run."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pulumi.runtime.resource
from pulumi.runtime.proto import source_pb2

# Names or prefixes of environment variables that the Pulumi, AWS and Kubernetes SDKs read as defaults of arguments,
# provider settings and config (pulumi 3.272, pulumi_aws 7.51, pulumi_kubernetes 4.34).
HIDDEN_VARIABLES = ("AWS_", "KUBE", "PULUMI_")


@contextmanager
def _environment() -> Iterator[None]:
    """Hides variables that SDKs would read, and undoes the program's own changes."""
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

    A run creates 2000 objects per resource and frees few of them before it ends. Collections then double the time: 652
    resources took 1.45 s with them and 0.76 s without. Only without them does the time grow linearly.
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
    """Stops the SDK from walking the call stack of each resource for its source position, which is not used here.

    The walk takes a fifth of the time of a run from a script. From pytest, whose stacks are deep, it takes half.
    """
    original: Callable[[], source_pb2.StackTrace] | None = getattr(pulumi.runtime.resource, "_get_stack_trace", None)
    if original is None:  # another SDK version, which is only slower
        yield
        return
    pulumi.runtime.resource._get_stack_trace = source_pb2.StackTrace
    try:
        yield
    finally:
        pulumi.runtime.resource._get_stack_trace = original


@contextmanager
def _no_noise() -> Iterator[None]:
    """Suppresses warnings about coroutines of the SDK that nothing awaits after a failed run."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"coroutine 'Output\.", RuntimeWarning)
        yield


@contextmanager
def prepared() -> Iterator[None]:
    """Prepares the process for a run, and restores it afterwards."""
    with _environment(), _no_collection(), _no_source_positions(), _no_noise():
        yield
