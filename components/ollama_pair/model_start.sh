#!/bin/sh
# Loads one model with all of its layers on the GPU, or fails visibly. Runs in the Ollama container as its postStart hook. It
# replaces the chart's own hook, which ignores failures and silently lets llama.cpp move layers to the CPU.
#   sh -c "$(cat model_start.sh)" model_start TAG NUM_GPU NUM_BATCH [SERVER_SECONDS [PULL_SECONDS]]
# If it fails, kubelet restarts the container. The reason is in the container's log and in its termination message.
set -eu
tag=$1 num_gpu=$2 num_batch=$3 server_seconds=${4:-120} pull_seconds=${5:-900}
log=${CONTAINER_LOG:-/proc/1/fd/1} termination_log=${TERMINATION_LOG:-/dev/termination-log} gpu=${GPU_DEVICE:-/dev/nvidiactl}
pause=${PAUSE_SECONDS:-2} watch=${WATCH_DIRECTORY:-/watch} server=${SERVER_PID:-1}
# The first variable is the directory of the MPS daemon. The device plugin sets it for its own daemon (k8s-device-plugin v0.20.0
# internal/plugin/mps.go), values.py for the daemon of the node. The second one, of values.py, says that the model never runs
# without MPS: `required` under the plugin's daemon, `node` under that of the node, with a memory limit of its own.
pipe=${CUDA_MPS_PIPE_DIRECTORY:-} mps=${TANDEM_MPS:-} daemon_seconds=${DAEMON_SECONDS:-900} daemon_turns=${DAEMON_TURNS:-10}
answer_seconds=${ANSWER_SECONDS:-20}

# Until this start has succeeded, the sidecar (model_watch.py) sends no requests.
rm -f "$watch/started" "$watch/lost" "$watch/ready" "$watch/mps" 2>/dev/null || :
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The driver's cache of compiled kernels. Without it, the model starts all the same, but later.
mkdir -p "${CUDA_CACHE_PATH:-$work}" 2>/dev/null || :

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

# After a crash of the daemon its files stay, but the kernel refuses connections to its socket. A socket of another type does not
# reach a daemon that lives: EPROTOTYPE (Linux net/unix/af_unix.c, unix_find_bsd). So this look costs nothing and logs nothing.
# Ollama's image is an Ubuntu, whose package perl-base is essential. Where perl fails, the daemon does not count as crashed.
has_crashed() {
    perl -MSocket -MErrno=ECONNREFUSED -e '
        socket(S, AF_UNIX, SOCK_DGRAM, 0) or die;
        exit(connect(S, pack_sockaddr_un(shift)) || $! != ECONNREFUSED)
    ' "$pipe/control" 2>/dev/null
}

# The question of the plugin's own health check (cmd/mps-control-daemon/mps/daemon.go, AssertHealthy).
ask_daemon() {
    echo get_default_active_thread_percentage | timeout "$answer_seconds" nvidia-cuda-mps-control >/dev/null 2>&1
}

# A node under load can leave one question without an answer, so there is a second one. NVIDIA's toolkit mounts the program for
# the capability `compute`; without it, only socket and files count.
daemon_answers() {
    [ -S "$pipe/control" ] && ! has_crashed || return 1
    command -v nvidia-cuda-mps-control >/dev/null || return 0
    ask_daemon || ask_daemon
}

# Which daemon it is. `quit` removes the file with its process ID but not the socket; a new daemon makes both. The end of
# nvidia-cuda-mps-server changes neither: the daemon starts another one for the next process. Without that file, the socket is
# enough: a daemon that stops removes it or refuses connections, and a new one makes another.
daemon_files() { stat -c '%n %i %y' "$pipe/control" "$pipe/nvidia-cuda-mps-control.pid" 2>/dev/null || :; }

# Whether the daemon lives, and is still the one under which the model was loaded. A process that finds no daemon runs without
# MPS: with the entire GPU, no limit and no error (man nvidia-cuda-mps-control).
in_mps() { [ -z "$pipe" ] || { [ "$(daemon_files)" = "$joined" ] && ! has_crashed; }; }

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

# The limit of a number that is not the GPU's own is no limit, without an error (run on an H100, 2026-11-26). With the only GPU of
# its node, the number is 0.
check="Check its pod on this node"
if [ "$mps" = node ]; then
    check="Check tandem-mps.service on this node"
    case ${CUDA_MPS_PINNED_DEVICE_MEM_LIMIT:-} in
    0=[1-9]*M) ;;
    *) fail "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT must be a limit of GPU 0, so $tag was not loaded: it would have the entire GPU" ;;
    esac
fi

# A request that arrives while there is no daemon starts a process without MPS, which would stay. Under EXCLUSIVE_PROCESS, as with
# the plugin's daemon, it also keeps the new MPS server from the GPU. A wait of more than ten minutes resets kubelet's back-off.
if [ -n "$pipe" ]; then
    daemon_answers || say "waiting for the MPS daemon before $tag is loaded"
    deadline=$(($(date +%s) + daemon_seconds))
    until daemon_answers; do
        [ "$(date +%s)" -lt "$deadline" ] ||
            fail "the MPS daemon did not answer within $daemon_seconds s, so $tag was not loaded. $check"
        quietly stop "$tag" || :
        sleep "$pause"
    done
    # Each pod of the plugin's daemon mounts another /dev/shm (mount/mount-shm.go), which only a newer container has. Kubelet
    # creates the termination message when it creates the container. The node's daemon shares memory with its clients without a
    # mount, and its directory outlives it (mps_daemon.py), so a container can use a daemon that is newer. The last `stop` ends a
    # process of a request that was faster than that daemon.
    if [ "$mps" = node ]; then
        quietly stop "$tag" || :
    elif [ -n "$(find "$pipe/control" -newer "$termination_log" 2>/dev/null)" ]; then
        fail "the MPS daemon started after this container, so $tag was not loaded: only a new container can use that daemon"
    fi
    joined=$(daemon_files)
elif [ "$mps" = node ]; then
    fail "CUDA_MPS_PIPE_DIRECTORY is missing, so $tag was not loaded: it would have the entire GPU"
elif [ "$mps" = required ]; then
    fail "the device plugin gave this container no MPS daemon, so $tag was not loaded. Its node shares the GPU in another mode"
fi

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

in_mps || fail "the MPS daemon ended or restarted while $tag was loading"

# The sidecar cannot stop the server from its own container. It writes `lost`, and this background process stops the server. It
# outlives the hook, so it must close the hook's output, for which kubelet would wait. A server that hangs while it stops has
# already closed its port, so the liveness probe ends it.
# Only this container sees the MPS daemon, so the process watches that, too. In the two seconds between two looks, a request can
# start a process without MPS, which ends with the server. `mps` shows the sidecar that it does. A look at files and socket is
# free; a question adds five lines to the daemon's log, so there is one in 20 seconds, for a daemon that hangs.
if [ -d "$watch" ]; then
    (
        # Also if this process fails, for example because the container has too many processes.
        trap 'kill "$server"' EXIT
        turn=0
        while kill -0 "$server" && ! [ -e "$watch/lost" ]; do
            if [ -n "$pipe" ]; then
                turn=$(((turn + 1) % daemon_turns))
                if ! in_mps || { [ "$turn" -eq 0 ] && ! daemon_answers; }; then
                    rm -f "$watch/started" "$watch/ready" || :
                    echo "$tag is outside MPS: its MPS daemon ended or restarted" >"$watch/lost" || :
                    break
                fi
                touch "$watch/mps" || :
            fi
            sleep "$pause"
        done
        { cat "$watch/lost" >"$termination_log"; } || :
        rm -f "$watch/lost"
    ) </dev/null >/dev/null 2>&1 &
    : >"$watch/started"
fi
