"""The cache of compiled kernels, with stand-ins for the engine: one that fills the cache, and one that does not."""

import sys
from pathlib import Path

import pytest

from tests.gpu.kernels import CASE, time_kernels
from tests.gpu.memory import Files
from tests.gpu.progress import SkipError
from tests.gpu.shapes import SHAPES, shrunk

ENGINE = """#!{python}
import http.server, os, pathlib, sys

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        {compiles}
        self.send_response(200); self.end_headers(); self.wfile.write(b"{{}}")

port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Answers).serve_forever()
"""
COMPILES = """pathlib.Path(os.environ["CUDA_CACHE_PATH"], "kernel").write_bytes(bytes(2**20))"""


def timed(tmp_path: Path, compiles: str) -> dict[str, object]:
    program = tmp_path / "llama-server"
    program.write_text(ENGINE.format(python=sys.executable, compiles=compiles), encoding="utf-8")
    program.chmod(0o755)
    files = Files(tmp_path / "models")
    return time_kernels(CASE, shrunk(SHAPES[CASE.model]), tmp_path, files, tmp_path / "kernels", tmp_path)


def test_both_starts_use_one_cache(tmp_path: Path) -> None:
    starts = timed(tmp_path, COMPILES)["starts"]
    assert sorted(log.name for log in tmp_path.glob("*.log")) == ["kernels-empty-cache.log", "kernels-filled-cache.log"]
    assert isinstance(starts, dict)
    assert [*starts] == ["empty cache", "filled cache"]
    assert {(one["cache_files"], one["cache_mib"]) for one in starts.values()} == {(1, 1.0)}
    assert all(one["ready_seconds"] >= 0 and one["prompt_seconds"] >= 0 for one in starts.values())


def test_an_engine_with_machine_code_answers_nothing(tmp_path: Path) -> None:
    with pytest.raises(SkipError, match="has machine code"):
        timed(tmp_path, "pass")
