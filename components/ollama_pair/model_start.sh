#!/bin/sh
# Loads one model with all of its layers on the GPU, or fails visibly. Runs in the Ollama container as its postStart hook. It
# replaces the chart's own hook, which ignores failures and silently lets llama.cpp move layers to the CPU.
#   sh -c "$(cat model_start.sh)" model_start TAG NUM_GPU NUM_BATCH [SERVER_SECONDS [PULL_SECONDS]]
# If it fails, kubelet restarts the container. The reason is in the container's log and in its termination message.
set -eu
tag=$1 num_gpu=$2 num_batch=$3 server_seconds=${4:-120} pull_seconds=${5:-900}
log=${CONTAINER_LOG:-/proc/1/fd/1} termination_log=${TERMINATION_LOG:-/dev/termination-log} gpu=${GPU_DEVICE:-/dev/nvidiactl}
pause=${PAUSE_SECONDS:-2} watch=${WATCH_DIRECTORY:-/watch} server=${SERVER_PID:-1}

# Until this start has succeeded, the sidecar (model_watch.py) sends no requests.
rm -f "$watch/started" "$watch/lost" 2>/dev/null || :
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A hook's own output is lost, so `say` writes to the output of process 1, the server: that is the container's log.
# An unwritable log is not an error.
say() { echo "model_start: $*" | tee -a "$log" >&2 2>/dev/null || :; }
fail() {
    say "$@"
    { echo "$*" >"$termination_log"; } 2>/dev/null || :
    exit 1
}

# `quietly` keeps progress bars out of the log. `reason` prints the last call's error on one line.
quietly() { ollama "$@" </dev/null >"$work/.answer" 2>&1; }
reason() {
    { sed -n 's/.*\(Error: \)/\1/; /^Error: /,$p' "$work/.answer" | grep . || tail -n 3 "$work/.answer"; } | tr '\n' ' ' | cut -c 1-1000
}

# The hook can run before the server listens.
deadline=$(($(date +%s) + server_seconds))
until quietly ps; do
    [ "$(date +%s)" -lt "$deadline" ] || fail "the Ollama server did not respond within $server_seconds s: $(reason)"
    sleep "$pause"
done

# DNS, NAT or the registry can become available after the pod. A model that is already on the disk needs none of them.
deadline=$(($(date +%s) + pull_seconds))
until quietly pull "$tag"; do
    why=$(reason)
    if quietly show "$tag"; then
        say "cannot pull $tag, so using the copy on the disk: $why"
        break
    fi
    [ "$(date +%s)" -lt "$deadline" ] || fail "cannot pull $tag, and it is not on the disk: $why"
    say "cannot pull $tag yet, trying again: $why"
    sleep "$pause"
done

# Without these two parameters, the free memory at that moment decides: Ollama sizes the batch by it, and llama.cpp the number
# of layers on the GPU. Of two servers that start on one GPU, the later one would spill. With num_gpu, llama.cpp loads all
# layers or fails. `pull` has just restored the registry's tag, so every start sets them; recreating a tag is idempotent.
# FROM prefers a file next to the Modelfile over a model of the same name, so the files here have names that no model has.
printf 'FROM %s\nPARAMETER num_gpu %s\nPARAMETER num_batch %s\n' "$tag" "$num_gpu" "$num_batch" >"$work/.modelfile"
quietly create "$tag" -f "$work/.modelfile" || fail "cannot set num_gpu and num_batch of $tag: $(reason)"

# Empty input loads the model and generates nothing. An embedding model requires input.
quietly run "$tag" || case $(reason) in
*"embedding models require input"*) quietly run "$tag" hello ;;
*) false ;;
esac || fail "$tag did not load: $(reason)"

# The server holds one model at a time (OLLAMA_MAX_LOADED_MODELS=1), so every line of `ps` is about ours.
# Check for a spill first: rounded, it can be "0%/100% CPU/GPU".
loaded=$(ollama ps | sed 1d)
case $loaded in
'') fail "$tag did not load: the server reported no error, but has no model in memory" ;;
*"% CPU/GPU"*) fail "$tag spilled: some of its layers are on the CPU. ollama ps: $loaded" ;;
*"100% CPU"*)
    if [ -e "$gpu" ]; then
        hint="the container has $gpu, but Ollama does not use it. See 'inference compute' in its log"
    else
        hint="the container has no GPU ($gpu is missing)"
    fi
    fail "$tag has no layer on a GPU: $hint. ollama ps: $loaded"
    ;;
*"100% GPU"*) say "all layers of $tag are on the GPU. ollama ps: $loaded" ;;
*) fail "$tag runs on an unknown processor. ollama ps: $loaded" ;;
esac

# The sidecar cannot stop the server from its own container. It writes `lost`, and this background process stops the server. It
# outlives the hook, so it must close the hook's output, for which kubelet would wait. A server that hangs while it stops has
# already closed its port, so the liveness probe ends it.
if [ -d "$watch" ]; then
    (
        while kill -0 "$server" && ! [ -e "$watch/lost" ]; do sleep "$pause"; done
        { cat "$watch/lost" >"$termination_log"; } || :
        rm -f "$watch/lost"
        kill "$server"
    ) </dev/null >/dev/null 2>&1 &
    : >"$watch/started"
fi
