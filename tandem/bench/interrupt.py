"""Ctrl-C during asynchronous work: the work is cancelled where it waits, and nothing else is disturbed."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_ctrl_c(work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Runs the work in an event loop of its own; False where Ctrl-C cancelled it.

    Python's own handler raises KeyboardInterrupt between any two instructions: also when a coroutine exists and no loop
    runs it yet, so that both complain when they are taken apart. The handler here raises nothing, and asyncio.Runner
    leaves it alone because it is not Python's (asyncio/runners.py, `Runner.run`, 3.11).
    """
    pressed = False
    cancel: Callable[[], object] | None = None

    def hear(*_: object) -> None:
        nonlocal pressed
        first, pressed = not pressed, True
        if first and cancel is not None:
            cancel()

    async def whole() -> None:
        nonlocal cancel
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # noqa: E731  # this also wakes a loop that waits
        try:
            if pressed:
                task.cancel()
            await work()
        finally:
            cancel = None

    earlier = signal.signal(signal.SIGINT, hear)
    try:
        asyncio.run(whole())
    except asyncio.CancelledError:
        return False
    finally:
        signal.signal(signal.SIGINT, earlier)
    return True
