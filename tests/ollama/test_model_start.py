"""ollama_pair/model_start.sh, run as kubelet runs it: with a stub of `ollama`, and with the real one if on PATH."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.gpu.gguf_file import write_model
from tests.gpu.shapes import SHAPES, Shape, shrunk

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "components" / "ollama_pair" / "model_start.sh"
TAG = "llama2:7b"
# The registry prefix is a closed port of this machine: no test asks a real registry for anything.
OWN = "localhost:1/tandem/tiny:f16"
SMALL = shrunk(SHAPES["llama2:7b"]).model
TINY = Shape(model=replace(SMALL, vocabulary=260, max_context=32768), matrices="F16", embedding="F16", output="F16")
"""A model of 1.8 MB that a real engine loads."""

STUB = """#!/bin/sh
# `ollama CMD` fails as often as the number in CMD.fails says, with the text in CMD.error; else it prints CMD.answer.
# CMD.hook runs before that.
cd "$STUB" || exit 9
echo "$*" >>calls
[ "$1" != create ] || cp "$4" modelfile
[ "$1" != run ] || wc -c >run.input
[ ! -e "$1.hook" ] || . "./$1.hook"
fails=$(cat "$1.fails" 2>/dev/null || echo 0)
if [ "$fails" -gt 0 ]; then
    echo $((fails - 1)) >"$1.fails"
    cat "$1.error" >&2
    exit 1
fi
cat "$1.answer" 2>/dev/null || :
"""
HEADER = "NAME         ID              SIZE      PROCESSOR          CONTEXT    UNTIL   \n"


def listing(processor: str) -> str:
    """What `ollama ps` prints for one loaded model."""
    return (
        f"{HEADER}{TAG}    78e26419b446    5.2 GB    {processor:15}    2048       Forever    \n"
        if processor
        else HEADER
    )


@dataclass
class Start:
    """One run of the script."""

    exit_code: int
    log: str
    """What reached the container's log."""
    message: str
    """What kubelet would show as the container's termination message."""


def start(folder: Path, tag: str, environment: dict[str, str], *arguments: str, user: Sequence[str] = ()) -> Start:
    """Runs the script; `user` is a command in front of it that changes what it may do."""
    log, message = folder / "log", folder / "message"
    log.unlink(missing_ok=True)
    message.unlink(missing_ok=True)
    done = subprocess.run(
        [*user, "/bin/sh", "-c", SCRIPT.read_text(), "model_start", tag, "999", "768", *(arguments or ("20", "1"))],
        env=os.environ
        | {"CONTAINER_LOG": str(log), "TERMINATION_LOG": str(message), "PAUSE_SECONDS": "0.05"}
        | {"GPU_DEVICE": str(folder / "nvidiactl"), "TMPDIR": str(folder)}
        | environment,
        stdin=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )
    assert not list(folder.glob("tmp.*")), "left a temporary folder behind"
    return Start(
        done.returncode,
        log.read_text() if log.exists() else "",
        message.read_text() if message.exists() else "",
    )


class Stub:
    """A stub of `ollama`: one that works until a test changes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "ollama").write_text(STUB)
        (folder / "bin" / "ollama").chmod(0o755)
        self.shows("100% GPU")

    def shows(self, processor: str) -> None:
        (self.folder / "ps.answer").write_text(listing(processor))

    def fails(self, command: str, error: str, times: int = 9999) -> None:
        (self.folder / f"{command}.fails").write_text(str(times))
        (self.folder / f"{command}.error").write_text(error)

    def start(self, *arguments: str, tag: str = TAG, **environment: str) -> Start:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return start(self.folder, tag, {"PATH": path, "STUB": str(self.folder)} | environment, *arguments)

    def calls(self, command: str) -> list[str]:
        return [call for call in (self.folder / "calls").read_text().splitlines() if call.split()[0] == command]

    def last_call(self) -> str:
        return (self.folder / "calls").read_text().splitlines()[-1].split()[0]


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    return Stub(tmp_path)


def test_the_folder_of_compiled_kernels_exists_before_the_model_loads(stub: Stub) -> None:
    kernels = stub.folder / "models" / "cuda"
    assert stub.start(CUDA_CACHE_PATH=str(kernels)).exit_code == 0
    assert kernels.is_dir()


def test_a_model_is_created_from_itself_with_the_planned_layers_and_batch_and_loaded_with_empty_input(
    stub: Stub,
) -> None:
    run = stub.start()
    assert (run.exit_code, run.message) == (0, "")
    assert "all layers of llama2:7b are on the GPU" in run.log
    expected = "FROM llama2:7b\nPARAMETER num_gpu 999\nPARAMETER num_batch 768\n"
    assert (stub.folder / "modelfile").read_text() == expected
    assert stub.calls("create")[0].startswith("create llama2:7b -f ")
    assert stub.calls("run") == ["run llama2:7b"]
    assert (stub.folder / "run.input").read_text().strip() == "0"


def test_a_server_that_is_late_is_waited_for(stub: Stub) -> None:
    stub.fails("ps", "Error: could not connect to ollama server, run 'ollama serve' to start it", times=3)
    assert stub.start().exit_code == 0
    assert len(stub.calls("ps")) == 5


def test_an_unreachable_registry_does_not_matter_when_the_model_is_on_the_disk(stub: Stub) -> None:
    stub.fails("pull", "\x1b[?25lpulling manifest \x1b[KError: dial tcp: lookup registry.ollama.ai: no such host")
    run = stub.start()
    assert run.exit_code == 0
    assert "cannot pull llama2:7b, so using the copy on the disk: Error: dial tcp: lookup" in run.log
    assert len(stub.calls("pull")) == 1


def test_a_registry_that_comes_up_later_is_tried_again(stub: Stub) -> None:
    stub.fails("show", ABSENT)
    stub.fails("pull", "Error: no such host", times=3)
    run = stub.start("20", "20")
    assert run.exit_code == 0
    assert len(stub.calls("pull")) == 4
    assert run.log.count("cannot pull llama2:7b yet, trying again: Error: no such host") == 3


ABSENT = "Error: model 'llama2:7b' not found"
NOWHERE = "Error: pull model manifest: file does not exist"
SPINNING = "\x1b[1G⠙ Error: 500: cudaMalloc failed: out of memory\nunable to allocate CUDA0 buffer\n"
"""What Ollama prints with its signs for a terminal, which nobody is to see."""


@pytest.mark.parametrize(
    ("fails", "message", "last_call"),
    [
        ({"ps": "Error: could not connect"}, "the Ollama server did not respond within 1 s: Error: could not", "ps"),
        ({"show": ABSENT, "pull": NOWHERE}, f"cannot pull {TAG}, and it is not on the disk: {NOWHERE}", "show"),
        ({"create": "Error: no space left"}, f"cannot set num_gpu and num_batch of {TAG}: Error: no space", "create"),
        ({"run": SPINNING}, f"{TAG} did not load: Error: 500: cudaMalloc failed: out of memory unable to", "run"),
        ({"run": "Killed\n"}, f"{TAG} did not load: Killed", "run"),
    ],
    ids=["no server", "no model anywhere", "a tag that cannot be written", "no GPU memory", "no word `Error`"],
)
def test_what_fails_fails_the_start_with_every_line_of_the_reason(
    stub: Stub, fails: dict[str, str], message: str, last_call: str
) -> None:
    for command, error in fails.items():
        stub.fails(command, error)
    run = stub.start("1", "1")
    assert (run.exit_code, run.message[: len(message)]) == (1, message)
    assert message in run.log
    assert stub.last_call() == last_call


CPU = "100% CPU"


@pytest.mark.parametrize(
    ("processor", "sees_gpu", "message"),
    [
        ("", False, f"{TAG} did not load: the server reported no error, but has no model in memory"),
        (CPU, False, f"{TAG} has no layer on a GPU: the container has no GPU"),
        (CPU, True, "but Ollama does not use it. See 'inference compute' in its log"),
        ("Unknown", False, f"{TAG} runs on an unknown processor"),
        *(
            (part, False, f"{TAG} spilled: some of its layers are on the CPU")
            for part in ("48%/52% CPU/GPU", "1%/99% CPU/GPU", "100%/0% CPU/GPU", "0%/100% CPU/GPU")
        ),
    ],
)
def test_a_model_that_is_not_entirely_on_the_gpu_fails_the_start(
    stub: Stub, processor: str, sees_gpu: bool, message: str
) -> None:
    stub.shows(processor)
    if sees_gpu:
        (stub.folder / "nvidiactl").touch()
    run = stub.start()
    assert run.exit_code == 1
    assert message in run.message
    assert processor in run.message


def test_the_text_has_nothing_that_kubernetes_or_helm_would_replace() -> None:
    # Kubernetes turns $$ into $ and $(NAME) into a variable where it expands commands; Helm's tpl takes {{.
    text = SCRIPT.read_text()
    assert "$$" not in text
    assert "{{" not in text
    assert not re.search(r"\$\([A-Z_]+\)", text)


@pytest.mark.parametrize("script", [SCRIPT, HERE.parents[1] / ".ci" / "run"], ids=["model_start.sh", "ci"])
def test_shellcheck_has_no_complaint(script: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([str(shellcheck), str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


# From here on: the real program.


def ollama_on_path() -> Path:
    """The program, or the reason to skip the test."""
    if program := shutil.which("ollama"):
        return Path(program).resolve()
    pytest.skip("ollama is not on PATH")


@dataclass
class Server:
    """A real Ollama server with its own folder and port, which holds the model OWN."""

    folder: Path
    program: Path
    environment: dict[str, str]
    process: "subprocess.Popen[bytes]"
    user: Sequence[str] = ()
    """A command in front of the server's and of the script's, which changes what they may do."""

    def ollama(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-500:]
        return done.stdout

    def start(self) -> Start:
        return start(self.folder, OWN, self.environment, user=self.user)

    def parameters(self) -> list[str]:
        lines = self.ollama("show", "--modelfile", OWN).splitlines()
        return sorted(line for line in lines if line.startswith("PARAMETER "))

    def files(self) -> list[str]:
        return sorted(
            str(file.relative_to(self.folder)) for file in (self.folder / "models").rglob("*") if file.is_file()
        )


@contextmanager
def serve(folder: Path, program: Path, settings: dict[str, str], user: Sequence[str] = ()) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "OLLAMA_HOST": f"127.0.0.1:{port}",
        "OLLAMA_MODELS": str(folder / "models"),
        "OLLAMA_NO_CLOUD": "1",
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_MAX_LOADED_MODELS": "1",
        **settings,
    }
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*user, program, "serve"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    server = Server(folder, program, environment, process, user)
    try:
        for _ in range(100):
            if b"inference compute" in (folder / "server.log").read_bytes():
                break
            time.sleep(0.1)
        write_model(TINY, folder / "tiny.gguf")
        (folder / "own").write_text(f'FROM {folder}/tiny.gguf\nPARAMETER stop "<end>"\nPARAMETER temperature 0.5\n')
        server.ollama("create", OWN, "-f", str(folder / "own"))
        yield server
    finally:
        process.terminate()
        process.wait(20)


def has_engines_of_its_own(program: Path) -> bool:
    """Whether this Ollama starts a llama-server for each model, as 0.30 and newer do."""
    answer = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"(\d+)\.(\d+)\.\d+", answer)
    return version is not None and (int(version[1]), int(version[2])) >= (0, 30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The `ollama` of PATH as it is. It sees no GPU, even where there is one."""
    program = ollama_on_path()
    if has_engines_of_its_own(program) and not (program.parents[1] / "lib" / "ollama" / "llama-server").exists():
        pytest.skip("this ollama has no llama-server in ../lib/ollama")
    with serve(tmp_path, program, {"CUDA_VISIBLE_DEVICES": "-1", "OLLAMA_VULKAN": "0"}) as running:
        yield running


def test_a_real_server_without_a_gpu_fails_the_start(server: Server) -> None:
    run = server.start()
    assert run.exit_code == 1
    assert run.message.startswith(f"{OWN} has no layer on a GPU: the container has no GPU")
    assert "100% CPU" in run.message
    assert "so using the copy on the disk" in run.log


def test_a_real_server_keeps_the_parameters_once_however_often_it_starts(server: Server) -> None:
    kept = ["PARAMETER num_batch 768", "PARAMETER num_gpu 999", "PARAMETER stop <end>", "PARAMETER temperature 0.5"]
    server.start()
    files = server.files()
    assert server.parameters() == kept
    server.start()
    assert server.parameters() == kept
    assert server.files() == files


FakeGpu = Callable[[str, int], Server]


@pytest.fixture
def fake_gpu(tmp_path: Path) -> Iterator[FakeGpu]:
    """The real server on a GPU that is not there: takes where layers go and the MiB that are free."""
    with ExitStack() as running:
        yield lambda places, free: running.enter_context(on_a_gpu(tmp_path, places, free))


@contextmanager
def on_a_gpu(
    folder: Path, places: str, free: int, models: Path | None = None, user: Sequence[str] = ()
) -> Iterator[Server]:
    """A server of the `ollama` of PATH, all of whose files are in `folder`, with a stand-in for its engine."""
    source = ollama_on_path()
    if not has_engines_of_its_own(source):
        pytest.skip("this ollama is older than 0.30 and has its engine built in")
    program, engines = folder / "bin" / "ollama", folder / "lib" / "ollama"
    engines.mkdir(parents=True)
    program.parent.mkdir()
    shutil.copy(source, program)  # it looks for llama-server in ../lib/ollama
    shutil.copy(HERE / "llama_server.py", engines / "llama-server")
    # Checks and copies a GGUF when a model is made of one: `llama-quantize --allow-requantize FROM TO COPY`.
    (engines / "llama-quantize").write_text('#!/bin/sh\ncp "$2" "$3"\n')
    for engine in engines.iterdir():
        engine.chmod(0o755)
    (engines / "places").write_text(places)
    (engines / "free").write_text(str(free))
    (folder / "nvidiactl").touch()
    settings = {"OLLAMA_CONTEXT_LENGTH": "8192", "OLLAMA_FLASH_ATTENTION": "1"}
    with serve(folder, program, settings | ({"OLLAMA_MODELS": str(models)} if models else {}), user) as running:
        yield running


def engine_arguments(server: Server) -> str:
    return (server.folder / "lib" / "ollama" / "arguments").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("places", "free", "message", "logged"),
    [
        ("full", 14900, "", "100% GPU"),
        ("partial", 14900, f"{OWN} spilled: some of its layers are on the CPU", ""),
        ("none", 0, f"{OWN} has no layer on a GPU", "but Ollama does not use it"),
        ("out of memory", 14900, f"{OWN} did not load: Error: ", "cudaMalloc failed: out of memory"),
    ],
)
def test_a_real_server_starts_with_all_layers_on_the_gpu_and_fails_otherwise_and_says_so(
    fake_gpu: FakeGpu, places: str, free: int, message: str, logged: str
) -> None:
    run = fake_gpu(places, free).start()
    assert (run.exit_code, run.message == "") == (int(message != ""), message == "")
    assert run.message.startswith(message)
    assert logged in run.log


@pytest.mark.parametrize("free", [14900, 20])
def test_a_real_server_gives_its_engine_the_planned_layers_and_batch_however_much_memory_is_free(
    fake_gpu: FakeGpu, free: int
) -> None:
    server = fake_gpu("full", free)
    server.start()
    assert " -b 768 -ub 768 -ngl 999" in engine_arguments(server)


@pytest.mark.parametrize(("free", "batch"), [(14900, 1024), (20, 512)])
def test_without_the_script_a_real_server_sizes_the_batch_by_free_memory_and_leaves_the_layers_open(
    fake_gpu: FakeGpu, free: int, batch: int
) -> None:
    server = fake_gpu("full", free)
    server.ollama("run", OWN)
    assert f" -b {batch} -ub {batch} " in engine_arguments(server)
    assert " -ngl " not in engine_arguments(server)
