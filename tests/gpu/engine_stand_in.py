#!/usr/bin/env python3
"""Stands in for llama-server: it takes the GPU memory that a real one took for the same file, and answers.

Without that memory it ends as the real one does. Source: tests/gpu/results/experiments, a share that is too small.
"""

import http.server
import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.mps_client import Allocator

NEEDS_MIB = {"llama2-7b.gguf": 6318 - 278, "llama3.2-3b.gguf": 3570 - 278}
"""Measured on an H100, of which an engine under MPS holds 278 less (docs/benchmarks)."""


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


def main(arguments: list[str]) -> None:
    if "--list-devices" in arguments:
        print("  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)")
    elif "--version" in arguments:
        print("version: 0.1.0-dev (build 10488, commit 0c1e57098)")
    else:
        given = dict(pairwise(arguments))
        need = NEEDS_MIB[Path(given["--model"]).name]
        share = Allocator()
        if share.allocate(need):
            sys.exit(f"alloc_buffer: allocating {need:.2f} MiB on device 0: cudaMalloc failed: out of memory")
        print("load_tensors: offloaded 33/33 layers to GPU")
        print(f"load_tensors:        CUDA0 model buffer size = {need:8.2f} MiB", flush=True)
        http.server.HTTPServer((given["--host"], int(given["--port"])), Answers).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
