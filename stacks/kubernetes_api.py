"""Reads lists from the Kubernetes API of a cluster that already exists, before anything is created there.

The Kubernetes provider cannot do it: its functions put what they read into the state.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from sharing.printable import quoted

SECONDS = 20


class NotAdmittedError(Exception):
    """The API rejects the caller; the text says how."""


class NotReachedError(Exception):
    """The API does not answer like one of Kubernetes; the text describes the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesApi:
    """One cluster's API. It only reads."""

    endpoint: str
    authority: str
    """The certificate of the cluster's authority as base64, as EKS reports it."""
    token: str

    def read(self, path: str) -> Mapping[str, Any] | None:
        """The answer to a GET; None if the server does not know the path.

        Raises `NotAdmittedError` and `NotReachedError`.
        """
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            request = urllib.request.Request(f"{self.endpoint}{path}", headers=headers)
            with urllib.request.urlopen(request, timeout=SECONDS, context=self._trusted()) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            is_denied = error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
            raise (NotAdmittedError if is_denied else NotReachedError)(f"{error.code} for {path}") from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise NotReachedError(quoted(reason) or type(reason).__name__) from None
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise NotReachedError(f"the answer to {path} is no object of Kubernetes")
        return answer

    def _trusted(self) -> ssl.SSLContext:
        """The cluster's own authority, and no other."""
        trusted = ssl.create_default_context(cadata=base64.b64decode(self.authority).decode())
        # Python 3.13 sets it, and then refuses the authority of a cluster that EKS created before Kubernetes 1.17
        # (aws/containers-roadmap#2638).
        trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return trusted
