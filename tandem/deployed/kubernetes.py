"""A cluster, through kr8s: plain calls with a time limit, and errors with fixes.

kr8s runs on an event loop in its own thread, which also serves forwarded ports.
"""

import asyncio
import io
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx
import httpx_ws
import kr8s
from anyio.from_thread import BlockingPortal, start_blocking_portal
from kr8s.asyncio import Api
from kr8s.asyncio.objects import CronJob, DaemonSet, Deployment, Job, Node, Pod, Secret

from sharing.printable import one_line
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.forwarding import Forward, Target, forwarded, listed
from tandem.deployed.kubeconfig import Chosen
from tandem.deployed.objects import AdmissionError
from tandem.deployed.patience import Patience

CONNECT_SECONDS = 40.0
"""Time limit of the first answer, including `aws eks get-token`."""
CREDENTIALS_SECONDS = 30.0
"""Time limit of that program alone."""
ANSWER_SECONDS = 30.0
Object = dict[str, Any]
T = TypeVar("T")


class Cluster:
    """One cluster, through one context of a kubeconfig. Raises `NotConnectedError` if it does not answer."""

    def __init__(self, portal: BlockingPortal, api: Api, chosen: Chosen) -> None:
        self._portal, self._api, self._chosen = portal, api, chosen

    @property
    def host(self) -> str:
        """The API server."""
        return self._chosen.host

    def nodes(self) -> list[Object]:
        """Every node."""
        return self._ask(listed, self._api, Node)

    def pods(self, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        """The pods of a namespace, or of all; with these labels."""
        return self._ask(listed, self._api, Pod, namespace, labels)

    def daemon_sets(self, namespace: str) -> list[Object]:
        """The DaemonSets of a namespace; none if it does not exist."""
        return self._ask(listed, self._api, DaemonSet, namespace)

    def deployments(self, namespace: str) -> list[Object]:
        """The Deployments of a namespace; none if it does not exist."""
        return self._ask(listed, self._api, Deployment, namespace)

    def secrets(self, labels: Mapping[str, str]) -> list[Object]:
        """The Secrets of all namespaces with these labels."""
        return self._ask(listed, self._api, Secret, None, labels)

    def read(self, path: str) -> Object | None:
        """The answer to a GET of a path; None if the server does not know it."""
        return self._ask(self._read, path)

    def create_pod(self, manifest: Object) -> None:
        """Creates a pod; raises `AdmissionError` if the cluster's rules refuse it."""
        self._ask(self._create_pod, manifest)

    def delete_pod(self, name: str, namespace: str) -> None:
        """Deletes a pod immediately; succeeds if there is none."""
        self._ask(self._delete_pod, name, namespace)

    def start_cron_job(self, name: str, namespace: str) -> str:
        """Starts a Job of a CronJob now, as `kubectl create job --from` does. Returns the name of the Job."""
        return self._ask(self._start_cron_job, name, namespace)

    def jobs(self, namespace: str) -> list[Object]:
        """The Jobs of a namespace."""
        return self._ask(listed, self._api, Job, namespace)

    def run_in(self, pod: Object, container: str, command: list[str]) -> str:
        """The output of a command in a container of a ready pod; raises `NotConnectedError` with the reason."""
        return self._ask(self._run_in, pod, container, command)

    def forward(
        self,
        name: str,
        namespace: str,
        labels: Mapping[str, str],
        port: int,
        *,
        host: str = "",
        local: int = 0,
    ) -> AbstractContextManager[Forward]:
        """A local port that leads to `port` of the ready pod with these labels.

        `name` is for messages. HTTP requests get the `host`, if given. `local` is the number of the local port; 0: any
        free one.
        """
        leads = forwarded(self._api, Target(name, namespace, labels, port, host), local)
        return self._portal.wrap_async_context_manager(leads)

    async def _read(self, path: str) -> Object | None:
        try:
            base, _, rest = path.removeprefix("/").partition("/")
            async with self._api.call_api("GET", version="", base=f"/{base}", url=rest) as response:
                answer: Object = response.json()
                return answer
        except kr8s.ServerError as error:
            if _status(error) == httpx.codes.NOT_FOUND:
                return None
            raise

    async def _create_pod(self, manifest: Object) -> None:
        pod = await Pod(manifest, api=self._api)
        try:
            await pod.create()
        except kr8s.ServerError as error:
            # RBAC names the user and the verb; any other "forbidden" comes from a quota or another rule for pods.
            if _status(error) == httpx.codes.FORBIDDEN and " cannot create resource " not in str(error):
                raise AdmissionError(one_line(str(error).partition("forbidden: ")[2] or str(error))) from None
            raise

    async def _delete_pod(self, name: str, namespace: str) -> None:
        pod = await Pod(name, namespace=namespace, api=self._api)
        try:
            await pod.delete(force=True)
        except kr8s.NotFoundError:
            return
        except kr8s.ServerError as error:
            if _status(error) != httpx.codes.NOT_FOUND:
                raise

    async def _start_cron_job(self, name: str, namespace: str) -> str:
        cron_job = await CronJob.get(name, namespace=namespace, api=self._api)
        template = cron_job.raw["spec"]["jobTemplate"]
        # kubectl v0.36.3 pkg/cmd/create/create_job.go, createJobFromCronJob. Without a name of its own, a second call
        # would fail while the Job of the first one is kept.
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": cron_job.metadata.uid}
        metadata = {
            "generateName": f"{name}-now-",
            "namespace": namespace,
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        job = await Job({"metadata": metadata, "spec": template["spec"]}, api=self._api)
        await job.create()
        return str(job.metadata.name)

    async def _run_in(self, pod: Object, container: str, command: list[str]) -> str:
        target, printed = await Pod(pod, api=self._api), io.BytesIO()
        try:
            await target.exec(command, container=container, stdout=printed)
        except kr8s.ExecError as error:
            why = one_line(printed.getvalue()) or one_line(str(error))
            raise NotConnectedError(f"`{command[0]}` failed in {pod['metadata']['name']}: {why}") from None
        except httpx_ws.WebSocketUpgradeError as error:
            code = error.response.status_code
            raise NotConnectedError(
                f"`{command[0]}` may not run in {pod['metadata']['name']} ({code}). Request `get` and `create` on "
                f"pods/exec in namespace {pod['metadata']['namespace']}."
            ) from None
        return printed.getvalue().decode(errors="replace")

    def _ask(self, asked: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        with explained(self._chosen):
            return self._portal.call(partial(_within, ANSWER_SECONDS, asked, *arguments))


@contextmanager
def cluster(chosen: Chosen, patience: Patience | None = None) -> Iterator[Cluster]:
    """The cluster of a context while the block runs.

    Raises `NotConnectedError` if it does not answer: immediately, or when patience ends.
    """
    with tempfile.TemporaryDirectory(prefix="tandem-kubeconfig-") as folder, start_blocking_portal() as portal:
        portal.call(_hide_abandoned_tasks)
        config = chosen.for_kr8s(Path(folder))
        try:
            yield Cluster(portal, _connect(portal, chosen, config, patience or Patience(0)), chosen)
        finally:
            # Ctrl-C may leave a port open: nothing waits for it.
            portal.call(portal.stop, True)


async def _hide_abandoned_tasks() -> None:
    """Hides the errors of connections that Ctrl-C ends: `watch` and `open` always end so."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)


def _connect(portal: BlockingPortal, chosen: Chosen, config: Object, patience: Patience) -> Api:
    while True:
        try:
            with explained(chosen):
                return portal.call(partial(_within, CONNECT_SECONDS, _connected, chosen, config))
        except NotConnectedError as error:
            if not error.passing or not patience.lasts(str(error)):
                raise


async def _connected(chosen: Chosen, config: Object) -> Api:
    """Like `kr8s.asyncio.api`, in two steps: an error comes from the credentials, or from the server."""
    # Without a service account: use the kubeconfig, even in a pod.
    api = Api(kubeconfig=config, serviceaccount="", bypass_factory=True)
    try:
        with anyio.fail_after(CREDENTIALS_SECONDS):
            await api.auth
    # kr8s passes on errors of an `exec` login's program: RuntimeError, OSError, KeyError, TypeError, ….
    except Exception as error:
        raise _no_credentials(error, chosen) from None
    (await api.version())["gitVersion"]  # fails on what is no API server
    return api


async def _within(seconds: float, asked: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    with anyio.fail_after(seconds):
        return await asked(*arguments)


@contextmanager
def explained(chosen: Chosen) -> Iterator[None]:
    """Turns any exception of kr8s and httpx into one line that ends with a fix."""
    try:
        yield
    except (NotConnectedError, AdmissionError):
        raise
    except kr8s.ServerError as error:
        raise _refused(error, chosen) from None
    # kr8s does not document the exceptions for answers that are not Kubernetes'.
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NotConnectedError(
            f"{chosen.host} does not answer like a Kubernetes API server ({type(error).__name__}). Check the server of "
            f"context '{chosen.context}', and any proxy in front of it."
        ) from None
    except Exception as error:
        raise _unreachable(error, chosen) from None


def _refused(error: kr8s.ServerError, chosen: Chosen) -> NotConnectedError:
    status, said = _status(error), one_line(str(error).partition("\n")[0])
    if status == httpx.codes.UNAUTHORIZED:
        return NotConnectedError(
            f"{chosen.host} rejected the token of context '{chosen.context}' (401): it has expired, or is for another "
            "account. Check `aws sts get-caller-identity`, then log in again."
        )
    if status == httpx.codes.FORBIDDEN:
        return NotConnectedError(
            f"{chosen.host} denied access: {said}. Request an EKS access entry with the policy "
            "AmazonEKSClusterAdminPolicy, or use an identity in `cluster.admins`, or the one that ran `up` last."
        )
    if status == httpx.codes.NOT_FOUND:
        return NotConnectedError(f"{chosen.host} did not find it: {said}. Check the stack with `tandem verify`.")
    if status == httpx.codes.BAD_REQUEST and chosen.cluster["server"].startswith("http:"):
        return NotConnectedError(
            f"{chosen.host} refused a request without TLS (400). Write https:// in the server of context "
            f"'{chosen.context}'."
        )
    passing = status is None or status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS
    return NotConnectedError(f"{chosen.host} answered with an error: {said}. Try again.", passing=passing)


def _status(error: kr8s.ServerError) -> int | None:
    return None if error.response is None else error.response.status_code


def _unreachable(error: Exception, chosen: Chosen) -> NotConnectedError:
    said = one_line(str(error))
    if "CERTIFICATE_VERIFY_FAILED" in said:
        why = said.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "not verified"
        return NotConnectedError(
            f"the certificate of {chosen.host} does not match context '{chosen.context}' ({why}). Pass this cluster's "
            "--context, or update the stack's outputs with `pulumi refresh`."
        )
    if isinstance(error, ssl.SSLError):  # from a file of the kubeconfig; httpx has its own error for a connection
        return NotConnectedError(
            f"a certificate or key of context '{chosen.context}' cannot be used ({said}). Get a new kubeconfig."
        )
    if "[SSL" in said:
        return NotConnectedError(
            f"{chosen.host} does not speak TLS like a Kubernetes API server ({said}). Check the server of context "
            f"'{chosen.context}', and any proxy in front of it."
        )
    if isinstance(error, httpx.LocalProtocolError):  # its text may show the token
        said = type(error).__name__
    why = said or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    return NotConnectedError(
        f"{chosen.host} cannot be reached ({why}). Check that the stack is deployed, and that "
        "`cluster.public-access-cidrs` contains your IP address.",
        passing=isinstance(error, OSError | kr8s.APITimeoutError | httpx.HTTPError | httpx_ws.HTTPXWSException),
    )


def _no_credentials(error: Exception, chosen: Chosen) -> NotConnectedError:
    """Why the credentials of a context cannot be used; of an `exec` login, only a failed program's output is shown."""
    program = one_line(chosen.program)
    if not program:
        return NotConnectedError(
            f"Context '{chosen.context}' cannot be used ({one_line(str(error))}). Get a new kubeconfig."
        )
    if isinstance(error, FileNotFoundError):
        where = "Install the AWS CLI (https://aws.amazon.com/cli/)" if program == "aws" else f"Install `{program}`"
        return NotConnectedError(
            f"Context '{chosen.context}' gets its token from `{program}`, which is not on the PATH. {where}, or pass "
            "another --kubeconfig."
        )
    if isinstance(error, TimeoutError):
        why = f"no answer within {CREDENTIALS_SECONDS:.0f} s."
    elif isinstance(error, OSError):
        why = f"it cannot run ({error.strerror or type(error).__name__})."
    elif isinstance(error, RuntimeError):
        said = [one_line(line) for line in str(error).splitlines() if line.strip()]
        why = said[-1] if len(said) > 1 else " ".join(said)
    else:
        why = "it prints no ExecCredential."
    return NotConnectedError(f"`{program}` provided no token: {why} Log in again (`aws sso login`, or new keys).")
