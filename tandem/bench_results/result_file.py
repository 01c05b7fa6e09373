"""The file of a result: reserved for one writer, written atomically, and validated on reading."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sharing.files import write_whole
from sharing.printable import as_json
from tandem.bench_results.result import SCHEMA_VERSION, Result
from tandem.terminal import FAILED, CallError

MOST_BYTES = 512 * 2**20
"""Of a result. 350,000 requests with 128 pieces each take 450 MiB."""
SPACE = re.compile(r"[ \t\r\n]*")
NUMBERS = re.compile(r"\[\s+([-\d.,\s]+?)\s+\]")


class ResultError(CallError):
    """A file that is not a result, or an incomplete one; the text names it."""


class NotWrittenError(CallError):
    """A result that could not be written; the earlier file is still complete."""

    exit_code = FAILED


@contextmanager
def reserve(path: Path) -> Iterator[None]:
    """Creates the file at `path`, and removes it if the block leaves it empty.

    So no benchmark overwrites a result, nor that of another one that runs now. Raises `CallError` if there is a file,
    or none can be created: before a measurement, not after it.
    """
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        raise CallError(f"{path} already exists. Choose another file with -o.") from None
    except OSError as error:
        raise CallError(f"{path} cannot be written: {error.strerror}. Choose another file with -o.") from error
    try:
        yield
    finally:
        if path.is_file() and path.stat().st_size == 0:
            path.unlink()


def write(result: Result, path: Path) -> None:
    """Writes the whole result to `path`. Raises `NotWrittenError`."""
    text = NUMBERS.sub(_in_one_line, as_json(asdict(result), indent=1)) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise NotWrittenError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path) -> Result:
    """The result at `path`, from any source; raises `ResultError`."""
    return validated(parsed(path), path)


def validated(document: object, path: Path) -> Result:
    """The document at `path` as a result; raises `ResultError`."""
    if not isinstance(document, dict) or document.get("kind") != "tandem bench":
        raise ResultError(
            f"{path} is not a result of `tandem bench`, `vllm bench serve`, AIPerf, guidellm or inference-perf. "
            "Choose a file that one of them wrote."
        )
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultError(
            f"{path} has schema version {_shortened(version)}, and this tandem reads {SCHEMA_VERSION}. "
            "Use the tandem version that wrote it, or measure again."
        )
    sessions = document.get("sessions")
    if isinstance(sessions, list) and len(sessions) > 1:
        raise ResultError(
            f"{path} was interrupted and resumed, and this tandem reads results of one call only. Measure again."
        )
    try:
        result = TypeAdapter(Result).validate_python(document)
    except ValidationError as error:
        wrong = first_error(error)
    else:
        wrong = next(_contradictions(result), "")
    if wrong:
        raise ResultError(f"{path} is damaged ({wrong}). Copy it again, or measure again.")
    return result


def first_error(error: ValidationError) -> str:
    """The first of the errors, with its place, and how many more there are."""
    first = error.errors()[0]
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg']}{more}"


def parsed(path: Path) -> object:
    """The JSON at `path`, of any kind: one document, or a list of the documents on its lines; raises `ResultError`."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}. Choose another file.") from error
    if len(content) > MOST_BYTES:
        raise ResultError(f"{path} has more than {MOST_BYTES // 2**20} MiB. Choose the result of a benchmark.")
    try:
        documents = _documents(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ResultError(
            f"{path} is not complete JSON (line {error.lineno}: {error.msg}). "
            "Copy it again if it was cut off, or choose another file."
        ) from error
    except (ValueError, RecursionError) as error:  # no text, a number of more than 4,300 digits, or deep nesting
        raise ResultError(f"{path} cannot be read as JSON. Choose the result of a benchmark.") from error
    return documents[0] if len(documents) == 1 else documents


def _documents(text: str) -> list[object]:
    """The JSON documents that the text contains, one after the other; at least one."""
    decoder, position = json.JSONDecoder(), 0
    found: list[object] = []
    while not found or position < len(text):
        document, end = decoder.raw_decode(text, _after_space(text, position))
        found.append(document)
        position = _after_space(text, end)
    return found


def _after_space(text: str, position: int) -> int:
    match = SPACE.match(text, position)
    return match.end() if match else position


def _contradictions(result: Result) -> Iterator[str]:
    """Contradictions between fields."""
    ids = [server.id for server in result.servers]
    if len(set(ids)) < len(ids):
        yield "sessions.0.servers: two have the same id"
    keys = set()
    for number, run in enumerate(result.runs):
        if run.key in keys:
            yield f"runs.{number}: the same as an earlier run"
        keys.add(run.key)
        if not set(run.endpoints) <= set(ids) or len(set(run.endpoints)) < len(run.endpoints):
            yield f"runs.{number}.endpoints: not the servers of the result"
        for row in run.rows:
            if row.error is None and not row.arrivals_us:
                yield f"runs.{number}.rows: a request without pieces and without an error"


def _shortened(value: object) -> str:
    return repr(value)[:40] if isinstance(value, int | str | float | None) else "unknown"


def _in_one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\s+", " ", match[1]) + "]"
