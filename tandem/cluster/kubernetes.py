"""A cluster, asked through kr8s: plain calls that end in time, and errors that say what to do.

kr8s runs on an event loop of its own thread here, so that every question has a limit and Ctrl-C is heard at once.
"""

import io
import signal
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import httpx
import httpx_ws
import kr8s
from anyio.from_thread import BlockingPortal, start_blocking_portal
from kr8s.asyncio import Api
from kr8s.asyncio import api as connect_to
from kr8s.asyncio.objects import APIObject, DaemonSet, Node, Pod, Secret

from tandem.cluster.forwarding import Forward, Target, forwarded, listed
from tandem.cluster.kubeconfig import Chosen
from tandem.connection import NotConnectedError

CONNECT_SECONDS = 30.0
"""Time for the first answer; `aws eks get-token` takes some of it."""
ANSWER_SECONDS = 30.0
Object = dict[str, Any]
T = TypeVar("T")


class Cluster:
    """One cluster, seen through one context of a kubeconfig. Raises `NotConnectedError` where it does not answer."""

    def __init__(self, portal: BlockingPortal, api: Api, chosen: Chosen) -> None:
        self._portal, self._api, self._chosen = portal, api, chosen

    @property
    def host(self) -> str:
        """The API server."""
        return self._chosen.host

    def nodes(self) -> list[Object]:
        """Every node."""
        return self._list(Node)

    def pods(self, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        """The pods of a namespace, or of all; with these labels."""
        return self._list(Pod, namespace=namespace or kr8s.ALL, label_selector=dict(labels or {}))

    def daemon_sets(self, namespace: str) -> list[Object]:
        """The DaemonSets of a namespace; none where there is no such namespace."""
        return self._list(DaemonSet, namespace=namespace)

    def secrets(self, labels: Mapping[str, str]) -> list[Object]:
        """The Secrets of all namespaces with these labels, with what they hold."""
        return self._list(Secret, namespace=kr8s.ALL, label_selector=dict(labels))

    def create_pod(self, manifest: Object) -> None:
        """Creates a pod."""
        self._ask(self._create_pod, manifest)

    def delete_pod(self, name: str, namespace: str) -> None:
        """Deletes a pod at once; fine where there is none."""
        self._ask(self._delete_pod, name, namespace)

    def run_in(self, pod: Object, container: str, command: list[str]) -> str:
        """What a command prints in a container of a ready pod; raises `NotConnectedError` with what went wrong."""
        return self._ask(self._run_in, pod, container, command)

    def forward(
        self, name: str, namespace: str, labels: Mapping[str, str], port: int, *, on_node: str = ""
    ) -> AbstractContextManager[Forward]:
        """A port of this machine that leads to `port` of the ready pod with these labels (on a node, if one is named).

        `name` is for messages.
        """
        leads = forwarded(self._api, Target(name, namespace, labels, port, on_node))
        return self._portal.wrap_async_context_manager(leads)

    async def _create_pod(self, manifest: Object) -> None:
        pod = await Pod(manifest, api=self._api)
        await pod.create()

    async def _delete_pod(self, name: str, namespace: str) -> None:
        pod = await Pod(name, namespace=namespace, api=self._api)
        try:
            await pod.delete(force=True)
        except kr8s.NotFoundError:
            return
        except kr8s.ServerError as error:
            if _status(error) != httpx.codes.NOT_FOUND:
                raise

    async def _run_in(self, pod: Object, container: str, command: list[str]) -> str:
        found, printed = await Pod(pod, api=self._api), io.BytesIO()
        try:
            await found.exec(command, container=container, stdout=printed)
        except kr8s.ExecError as error:
            said = " ".join(printed.getvalue().decode(errors="replace").split())
            why = said or str(error)
            raise NotConnectedError(f"`{command[0]}` failed in {pod['metadata']['name']}: {why}") from None
        except httpx_ws.WebSocketUpgradeError as error:
            code = error.response.status_code
            raise NotConnectedError(f"`{command[0]}` may not be run in {pod['metadata']['name']} ({code})") from None
        return printed.getvalue().decode(errors="replace")

    def _list(self, kind: type[APIObject], **query: Any) -> list[Object]:
        return self._ask(partial(listed, self._api, kind, **query))

    def _ask(self, asked: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        with explained(self._chosen):
            return _call(self._portal, partial(_within, ANSWER_SECONDS, asked, *arguments))


@contextmanager
def cluster(chosen: Chosen) -> Iterator[Cluster]:
    """The cluster of a context while the block runs; raises `NotConnectedError` where it does not answer."""
    with tempfile.TemporaryDirectory(prefix="tandem-kubeconfig-") as folder, _event_loop() as portal:
        config = chosen.for_kr8s(Path(folder))
        with explained(chosen), warnings.catch_warnings():
            # kr8s warns of Kubernetes versions that it has not been tried with: what is used here is older than those.
            warnings.simplefilter("ignore", UserWarning)
            # Without a service account: a kubeconfig was meant, also when this runs in a pod.
            connecting = partial(connect_to, kubeconfig=cast(Any, config), serviceaccount="")  # a dict is fine, too
            api = _call(portal, partial(_within, CONNECT_SECONDS, connecting))
        try:
            yield Cluster(portal, api, chosen)
        finally:
            # Ctrl-C may come at any time, also while a port is being opened or closed: nothing is waited for.
            portal.call(portal.stop, True)


@contextmanager
def _event_loop() -> Iterator[BlockingPortal]:
    """A loop in a thread of its own while the block runs."""
    with ExitStack() as open_things:
        # Interrupted while it waits for the loop to begin, anyio would wait for the end of the thread, for ever.
        with _interrupts_held_back():
            portal = open_things.enter_context(start_blocking_portal())
        yield portal


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C while the block runs counts at its end."""
    caught = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    except ValueError:  # not the main thread: signals go elsewhere
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


async def _within(seconds: float, asked: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    with anyio.fail_after(seconds):
        return await asked(*arguments)


def _call(portal: BlockingPortal, asked: Callable[[], Awaitable[T]]) -> T:
    """Runs it on the loop. Ctrl-C ends it there, too: `portal.call` would leave it running."""
    future = portal.start_task_soon(asked)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


@contextmanager
def explained(chosen: Chosen) -> Iterator[None]:
    """Turns what kr8s and httpx raise into one line with the way out."""
    try:
        yield
    except kr8s.ServerError as error:
        raise _refused(error, chosen) from None
    except (TimeoutError, kr8s.APITimeoutError, httpx.TransportError, httpx_ws.HTTPXWSException) as error:
        raise _unreachable(error, chosen) from None
    except FileNotFoundError as error:
        raise _no_program(error, chosen) from None
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        raise _no_credentials(error, chosen) from None


def _refused(error: kr8s.ServerError, chosen: Chosen) -> NotConnectedError:
    status = _status(error)
    if status == httpx.codes.UNAUTHORIZED:
        return NotConnectedError(
            f"{chosen.host} does not know you (401): the token has expired, or is for another account. Log in again "
            f"(`aws sts get-caller-identity` says who you are); context '{chosen.context}' was used."
        )
    if status == httpx.codes.FORBIDDEN:
        return NotConnectedError(
            f"{chosen.host} does not allow it: {error}. Ask for an EKS access entry with the policy "
            "AmazonEKSClusterAdminPolicy, or take the identity that made the cluster."
        )
    if status == httpx.codes.NOT_FOUND:
        return NotConnectedError(f"{chosen.host} has no such thing: {error}.")
    passing = status is None or status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS
    return NotConnectedError(f"{chosen.host} answers with an error: {error}.", passing=passing)


def _status(error: kr8s.ServerError) -> int | None:
    return None if error.response is None else error.response.status_code


def _unreachable(error: Exception, chosen: Chosen) -> NotConnectedError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return NotConnectedError(
            f"{chosen.host} shows another certificate than context '{chosen.context}' has: that is another cluster. "
            "Name the right --context, or make the stack's outputs new with `pulumi refresh`."
        )
    why = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    return NotConnectedError(
        f"{chosen.host} cannot be reached ({why}). Is the stack up, and may your address in "
        "(`cluster.public-access-cidrs`)?",
        passing=True,
    )


def _no_program(error: FileNotFoundError, chosen: Chosen) -> NotConnectedError:
    program = str((chosen.user.get("exec") or {}).get("command", ""))
    if program and error.filename in (program, str(chosen.folder / program)):
        where = "Install the AWS CLI (https://aws.amazon.com/cli/)" if program == "aws" else f"Install `{program}`"
        return NotConnectedError(
            f"context '{chosen.context}' gets its token from `{program}`, which is not on the PATH. {where}, or take "
            "another --kubeconfig."
        )
    return NotConnectedError(f"context '{chosen.context}' names {error.filename}, which is not there.")


def _no_credentials(error: Exception, chosen: Chosen) -> NotConnectedError:
    """kr8s tells the outcome of an `exec` login as RuntimeError, and what it cannot use as ValueError or KeyError."""
    program = (chosen.user.get("exec") or {}).get("command")
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RuntimeError) and program and said and said[0].startswith("Process exited"):
        why = said[-1] if len(said) > 1 else said[0]
        return NotConnectedError(f"`{program}` gives no token: {why} Log in again (`aws sso login`, or new keys).")
    return NotConnectedError(f"context '{chosen.context}' cannot be used: {' '.join(said) or type(error).__name__}.")
