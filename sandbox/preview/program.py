"""Runs an entire Pulumi program in this process against the emulated cloud, and returns its graph.

Runs are isolated: the SDK's state is in context variables, so every run has a copied context and its own event loop.
See `process` for the rest. Only one run at a time is possible.
"""

import asyncio
import contextvars
import os
from collections.abc import Callable
from typing import Any

from pulumi.runtime import set_all_config
from pulumi.runtime.settings import ROOT, SETTINGS, Settings, configure
from pulumi.runtime.stack import run_in_stack

from sandbox.cloud.answers import Cloud
from sandbox.graph import Graph
from sandbox.preview.monitor import Monitor
from sandbox.preview.process import prepared
from sandbox.preview.transforms import Callbacks

ORGANIZATION = "organization"
"""Result of `pulumi.get_organization()`. The CLI uses the same value for a backend without organizations."""


def run(
    program: Callable[[], Any],
    *,
    project: str,
    stack: str,
    preview: bool = True,
    cloud: Cloud | None = None,
) -> Graph:
    """Runs the program as one stack, without configuration, and returns its resources, logs and outputs.

    `preview` is the result of `pulumi.runtime.is_dry_run()`. The cloud replies in both cases. The SDK treats missing
    outputs as unknown in a preview and as None in an `up`.

    Raises the program's own exception, or `Refused` if the engine or the sandbox does not support something. Inside a
    coroutine, call it in a thread, because it has its own event loop.
    """
    callbacks = Callbacks()
    monitor = Monitor(cloud or Cloud(), project, stack, callbacks)

    def body() -> None:
        ROOT.set(None)
        configure(
            Settings(
                project,
                stack,
                # Meant for addresses or stubs, but any object with a stub's methods works.
                monitor=monitor,
                engine=monitor,
                dry_run=preview,
                organization=ORGANIZATION,
                root_directory=os.getcwd(),
            )
        )
        SETTINGS.callbacks = callbacks
        set_all_config({})
        _complete(program)

    with prepared():
        contextvars.copy_context().run(body)
    return monitor.graph()


class _InlineLoop(asyncio.SelectorEventLoop):
    """An event loop that runs the SDK's calls to the monitor directly instead of on a thread.

    They return immediately and use no loop. A thread would only add two context switches per call and a lock in the
    monitor. Everything else that a program passes to an executor still gets a thread.
    """

    def run_in_executor(  # type: ignore[override]  # typeshed's TypeVarTuple needs PEP 646 syntax here
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        if executor is not None or not getattr(func, "__module__", "").startswith("pulumi.runtime."):
            return super().run_in_executor(executor, func, *args)
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def _complete(program: Callable[[], Any]) -> None:
    """Runs the program, and everything that it starts, on a separate event loop."""
    raised: list[BaseException] = []

    async def watched() -> None:
        try:
            program()
        except BaseException as error:
            raised.append(error)
            raise

    loop = _InlineLoop()
    # After a failed run, asyncio would print every future that nothing awaits.
    loop.set_exception_handler(lambda *_: None)
    try:
        loop.run_until_complete(run_in_stack(watched))
    except BaseException as last:
        # The SDK raises the last failure, with the first one as its cause. The first one is the real error, and the
        # program's own error has priority over those of its resources.
        first = raised[0] if raised else SETTINGS.rpc_manager.unhandled_exception or last
        if first.__cause__ is first:
            first.__cause__ = None
        if first is last:
            raise
        raise first from first.__cause__
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
