#!/usr/bin/env python3
"""Stands in for the llama-server that Ollama 0.30 and newer start for each model: a GPU without a GPU.

Beside it lie `places` (how many layers it claims to put on its GPU: full, partial, none; or `out of memory`) and
`free` (MiB free on the GPU); it appends its arguments to `arguments`, and each prompt to `prompts`, as JSON. It prints
the lines that Ollama reads, in llama.cpp's form.

It answers as well: a word a token, `w0 w1 w2 …`, one each two milliseconds, as many as it is asked for; a prompt with
`LONG` in it makes each word 64 KiB. Three files beside it change that: while there is `hold`, answers wait; while there
is `loading`, the model loads; with `lost`, the GPU is lost, and the process ends when it uses it.

With LLAMA_ARG_ENDPOINT_METRICS, `/metrics` counts as the real one does (llama.cpp 0c1e57098, tools/server). A prompt
takes 0.0015 s, and an answer 0.0025 s.
"""

import http.server
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

here = Path(__file__).parent
LOAD = {
    "full": [
        "load_tensors: offloaded 3/3 layers to GPU",
        "load_tensors:   CPU_Mapped model buffer size =    70.31 MiB",
        "load_tensors:        CUDA0 model buffer size =  3577.56 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB",
    ],
    "partial": [
        "load_tensors: offloaded 2/3 layers to GPU",
        "load_tensors:          CPU model buffer size =  1777.56 MiB",
        "load_tensors:        CUDA0 model buffer size =  1800.00 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB",
    ],
    "none": [
        "load_tensors:          CPU model buffer size =  3577.56 MiB",
        "llama_kv_cache:        CPU KV buffer size =  1024.00 MiB",
    ],
    "out of memory": [
        "alloc_buffer: allocating 3577.56 MiB on device 0: cudaMalloc failed: out of memory",
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    ],
}


COUNTERS = {
    "prompt_tokens_total": "Number of prompt tokens processed.",
    "prompt_seconds_total": "Prompt process time",
    "tokens_predicted_total": "Number of generation tokens processed.",
    "tokens_predicted_seconds_total": "Predict process time",
    "n_decode_total": "Total number of llama_decode() calls",
}
GAUGES = {
    "prompt_tokens_seconds": "Average prompt throughput in tokens/s.",
    "predicted_tokens_seconds": "Average generation throughput in tokens/s.",
    "requests_processing": "Number of requests processing.",
    "requests_deferred": "Number of requests deferred.",
}
counted = dict.fromkeys([*COUNTERS, *GAUGES], 0.0)


def metrics() -> str:
    lines = []
    for kind, described in (("counter", COUNTERS), ("gauge", GAUGES)):
        for name, text in described.items():
            lines += [f"# HELP llamacpp:{name} {text}", f"# TYPE llamacpp:{name} {kind}"]
            # C++ streams write six digits.
            lines.append(f"llamacpp:{name} {counted[name]:.6g}")
    return "".join(f"{line}\n" for line in lines)


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            is_on = os.environ.get("LLAMA_ARG_ENDPOINT_METRICS") == "1"
            self.send_response(503 if (here / "loading").exists() else 200 if is_on else 501)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(metrics().encode() if is_on else b'{"error":{"code":501}}')
            return
        self.send_response(200)
        self.end_headers()
        status = "loading model" if (here / "loading").exists() else "ok"
        self.wfile.write(json.dumps({"status": status}).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        if self.path == "/tokenize":
            self.wfile.write(json.dumps({"tokens": list(range(len(str(asked["content"]).split())))}).encode())
        elif self.path == "/apply-template":
            prompt = "\n".join(message["content"] for message in asked["messages"])
            self.wfile.write(json.dumps({"prompt": prompt}).encode())
        else:
            counted["requests_processing"] += 1
            self.complete(asked)
            counted["requests_processing"] -= 1

    def complete(self, asked: dict[str, Any]) -> None:
        prompt = str(asked.get("prompt") or asked.get("messages"))
        with (here / "prompts").open("a") as log:
            print(json.dumps(prompt), file=log)
        count = asked.get("n_predict") or asked.get("max_tokens") or 8
        while (here / "hold").exists():
            time.sleep(0.01)
        end_if_lost()
        for number in range(count):
            time.sleep(0.002)
            self.say(f"w{number} ".ljust(65536 if "LONG" in prompt else 0, "w"))
        counted["prompt_tokens_total"] += len(prompt.split())
        counted["prompt_seconds_total"] += 0.0015
        counted["tokens_predicted_total"] += count
        counted["tokens_predicted_seconds_total"] += 0.0025
        timings = {"cache_n": 0, "prompt_n": len(prompt.split()), "prompt_ms": 1.5}
        self.say("", stop={**timings, "predicted_n": count, "predicted_ms": 2.5})

    def say(self, text: str, stop: dict[str, float] | None = None) -> None:
        if self.path == "/completion":
            event: dict[str, Any] = {"content": text, "stop": bool(stop), "stop_type": "limit", "timings": stop or {}}
        else:
            choice = {"delta": {"content": text}, "finish_reason": "length" if stop else None}
            event = {"choices": [choice], "timings": stop or {}}
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()


def end_if_lost() -> None:
    if (here / "lost").exists():
        print("CUDA error: the MPS client was terminated by the server", file=sys.stderr, flush=True)
        os._exit(1)


def main() -> None:
    arguments, places = sys.argv[1:], (here / "places").read_text()
    if "--list-devices" in arguments:
        print("Available devices:")
        if places != "none":
            print(f"  CUDA0: Tesla T4 (15360 MiB, {(here / 'free').read_text()} MiB free)")
    elif "--model" not in arguments:  # Ollama looks for GPUs, and ends this when it has read the second line
        print("  Device 0: Tesla T4, compute capability 7.5, VMM: yes, VRAM: 15360 MiB", file=sys.stderr)
        print("system_info: n_threads = 2 | CUDA : ARCHS = 750 |", file=sys.stderr, flush=True)
        time.sleep(10)
    else:
        with (here / "arguments").open("a") as log:
            print(*arguments, file=log)
        end_if_lost()
        for line in LOAD[places]:
            print(line, file=sys.stderr, flush=True)
        if places == "out of memory":
            sys.exit(1)
        port = int(arguments[arguments.index("--port") + 1])
        http.server.ThreadingHTTPServer(("127.0.0.1", port), Healthy).serve_forever()


if __name__ == "__main__":
    main()
