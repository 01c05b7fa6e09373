"""Lets Ctrl-C cancel asynchronous work at the point where it waits, without other effects."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_ctrl_c(work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Runs the work in its own event loop; False if Ctrl-C cancelled it.

    Python's handler raises KeyboardInterrupt between any two instructions, even while a coroutine exists that no loop
    runs yet. Then both warn when they are destroyed. The handler here raises nothing, and asyncio.Runner keeps it
    because it is not Python's (asyncio/runners.py, `Runner.run`, 3.11).
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
