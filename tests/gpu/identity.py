"""Takes the identity of a GPU and of its machine out of text that may be published."""

import re
from typing import Any

PRIVATE = (
    # `GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c`; a slice of MIG has one too, and CUDA prints it without a prefix.
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "(uuid)"),
    # `0000:17:00.0` of Ollama, `00000000:17:00.0` of nvidia-smi.
    (re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE), "(bus id)"),
    # Ollama writes the public key that it makes at its first start.
    (re.compile(r"\bssh-ed25519 \S+"), "(key)"),
    # `Serial Number : 1654922006536` of nvidia-smi.
    (re.compile(r"(\bserial(?: number)?\s*[:=]\s*)\w+", re.IGNORECASE), r"\1(serial)"),
)


def without_identity(found: Any, host: str = "") -> Any:
    """A text, or all texts of a result, without UUIDs, bus ids, serial numbers, keys and the name of the host.

    The keys of a result stay: they are the form's own words, and a host may have the name `gpu`.
    """
    if isinstance(found, dict):
        return {key: without_identity(value, host) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [without_identity(value, host) for value in found]
    if not isinstance(found, str):
        return found
    text = found
    for pattern, instead in PRIVATE:
        text = pattern.sub(instead, text)
    return re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "(host)", text) if host not in ("", "localhost") else text
