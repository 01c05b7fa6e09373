#!/bin/sh
# Loads one model with all of its layers on the GPU, or fails so that it is seen. Runs in the Ollama container as its postStart
# hook, in place of the chart's own, which ignores failures and lets llama.cpp move layers to the CPU without a word.
#   sh -c "$(cat model_start.sh)" model_start TAG NUM_GPU NUM_BATCH [SERVER_SECONDS [PULL_SECONDS]]
# Non-zero: kubelet restarts the container; the reason is in the container's log and in its termination message.
set -eu
tag=$1 num_gpu=$2 num_batch=$3 server_seconds=${4:-120} pull_seconds=${5:-900}
log=${CONTAINER_LOG:-/proc/1/fd/1} termination_log=${TERMINATION_LOG:-/dev/termination-log} gpu=${GPU_DEVICE:-/dev/nvidiactl}
pause=${PAUSE_SECONDS:-2} watch=${WATCH_DIRECTORY:-/watch} server=${SERVER_PID:-1}

# Until this start has succeeded, the sidecar (model_watch.py) asks nothing of the server.
rm -f "$watch/started" "$watch/lost" 2>/dev/null || :
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a hook prints is kept nowhere: process 1 is the server, its output is the container's log. An unwritable log is no failure.
say() { echo "model_start: $*" | tee -a "$log" >&2 2>/dev/null || :; }
fail() {
    say "$@"
    { echo "$*" >"$termination_log"; } 2>/dev/null || :
    exit 1
}

# Quiet: progress bars would flood the log. `reason` gives the last call's error, which may have several lines, as one.
quietly() { ollama "$@" </dev/null >"$work/.answer" 2>&1; }
reason() {
    { sed -n 's/.*\(Error: \)/\1/; /^Error: /,$p' "$work/.answer" | grep . || tail -n 3 "$work/.answer"; } | tr '\n' ' ' | cut -c 1-1000
}

# The hook may run before the server listens.
deadline=$(($(date +%s) + server_seconds))
until quietly ps; do
    [ "$(date +%s)" -lt "$deadline" ] || fail "the Ollama server did not answer within $server_seconds s: $(reason)"
    sleep "$pause"
done

# DNS, NAT or the registry may come up after the pod. A model that is on the disk already needs none of them.
deadline=$(($(date +%s) + pull_seconds))
until quietly pull "$tag"; do
    why=$(reason)
    if quietly show "$tag"; then
        say "cannot pull $tag, going on with the copy on the disk: $why"
        break
    fi
    [ "$(date +%s)" -lt "$deadline" ] || fail "cannot pull $tag and it is not on the disk: $why"
    say "cannot pull $tag yet: $why"
    sleep "$pause"
done

# Without these two Ollama sizes the batch, and llama.cpp the number of layers on the GPU, by the memory that is free at that
# moment: of two servers starting on one card the later one spills. With num_gpu set, llama.cpp takes all layers or dies.
# `pull` has just restored the registry's tag, so write them at each start; creating a tag from itself adds nothing twice.
# FROM takes a file beside the Modelfile for a model of that name, hence names that no model can have.
printf 'FROM %s\nPARAMETER num_gpu %s\nPARAMETER num_batch %s\n' "$tag" "$num_gpu" "$num_batch" >"$work/.modelfile"
quietly create "$tag" -f "$work/.modelfile" || fail "cannot set num_gpu and num_batch of $tag: $(reason)"

# Empty input: loads, says nothing. An embedding model wants a word.
quietly run "$tag" || case $(reason) in
*"embedding models require input"*) quietly run "$tag" hello ;;
*) false ;;
esac || fail "$tag did not load: $(reason)"

# One server holds one model (OLLAMA_MAX_LOADED_MODELS=1), so all that `ps` lists is ours, under whatever short name.
# Spilled first: rounded, that can be "0%/100% CPU/GPU".
loaded=$(ollama ps | sed 1d)
case $loaded in
'') fail "$tag did not load: the server gave no error, but holds no model" ;;
*"% CPU/GPU"*) fail "$tag spilled: some of its layers are on the CPU. ollama ps: $loaded" ;;
*"100% CPU"*)
    if [ -e "$gpu" ]; then
        hint="the container has $gpu, but Ollama does not use it: see 'inference compute' in its log"
    else
        hint="no GPU is visible in the container ($gpu is missing)"
    fi
    fail "no layer of $tag is on a GPU: $hint. ollama ps: $loaded"
    ;;
*"100% GPU"*) say "all layers of $tag are on the GPU. ollama ps: $loaded" ;;
*) fail "cannot tell where $tag is. ollama ps: $loaded" ;;
esac

# The sidecar cannot end the server from its own container: it writes `lost`, and this process ends it. It outlives the hook,
# and must hold no output of the hook open, for which kubelet would wait. A server that hangs while it stops has closed its port
# first, so the liveness probe ends it.
if [ -d "$watch" ]; then
    (
        while kill -0 "$server" && ! [ -e "$watch/lost" ]; do sleep "$pause"; done
        { cat "$watch/lost" >"$termination_log"; } || :
        rm -f "$watch/lost"
        kill "$server"
    ) </dev/null >/dev/null 2>&1 &
    : >"$watch/started"
fi
