// A fake driver: the functions of libcuda that a share proof calls. Environment variables set its behaviour.
// Codes and names are from cuda.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100 };
static const size_t MIB = 1 << 20;
static size_t taken, sizes[16];
static int count;
static long limit_mib;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static void note(long mib) {
    FILE *ledger = getenv("FAKE_LEDGER") ? fopen(getenv("FAKE_LEDGER"), "a") : NULL;
    if (ledger) fprintf(ledger, "%ld\n", mib), fclose(ledger);
}

int cuGetErrorName(int code, const char **name) {
    switch (code) {
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
    case 46: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; return SUCCESS;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
    case 101: *name = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
    case 805: *name = "CUDA_ERROR_MPS_CONNECTION_FAILED"; return SUCCESS;
    default: return 1;
    }
}

// Whether the MPS daemon of CUDA_MPS_PIPE_DIRECTORY accepts connections.
static int has_daemon(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!getenv("CUDA_MPS_PIPE_DIRECTORY")) return 0;
    snprintf(name.sun_path, sizeof name.sun_path, "%s/control", getenv("CUDA_MPS_PIPE_DIRECTORY"));
    int client = socket(AF_UNIX, SOCK_STREAM, 0), refused = connect(client, (struct sockaddr *)&name, sizeof name);
    close(client);
    return !refused;
}

// A client of the daemon has the limit of its environment, if that is for GPU 0. Otherwise a process has no limit, without an
// error. It is read only once. Run on an H100 (2026-11-26): a limit for GPU 1, and a limit without a daemon, were no limits.
int cuInit(unsigned flags) {
    long own;
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    if (limit_mib) return SUCCESS;
    limit_mib = number("FAKE_LIMIT_MIB", 15110);
    if (text && has_daemon() && sscanf(text, "0=%ldM", &own) == 1 && own < limit_mib) limit_mib = own;
    return number("FAKE_INIT", SUCCESS);
}

int cuDeviceGetCount(int *found) { *found = number("FAKE_COUNT", 1); return SUCCESS; }

int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal < number("FAKE_COUNT", 1) ? SUCCESS : 101; }

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device != 7) return 101;
    while (getenv("FAKE_HANG")) pause();
    // EXCLUSIVE_PROCESS mode with another process on the GPU, as long as that file exists.
    if (getenv("FAKE_EXCLUSIVE") && access(getenv("FAKE_EXCLUSIVE"), F_OK) == 0) {
        char seen[4096];
        snprintf(seen, sizeof seen, "%s.seen", getenv("FAKE_EXCLUSIVE"));
        FILE *file = fopen(seen, "w");
        if (file) fclose(file);
        return 46;
    }
    *context = &taken;
    return number("FAKE_CONTEXT", SUCCESS);
}

int cuCtxSetCurrent(void *context) { return context == &taken ? SUCCESS : 1; }

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "%s", getenv("FAKE_NAME") ? getenv("FAKE_NAME") : "Tesla T4");
    return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *id, int device) { memset(id, number("FAKE_GPU", 0xAA), 16); return SUCCESS; }

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = number("FAKE_MIB", 15110) * MIB; return SUCCESS; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *bytes) {
    *bytes = number("FAKE_INFO_MIB", number("FAKE_MIB", 15110)) * MIB;
    *free_bytes = *bytes - taken;
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t size) {
    if (getenv("FAKE_DIE")) _exit(3);
    if (number("FAKE_REFUSAL", SUCCESS)) return number("FAKE_REFUSAL", SUCCESS);
    if (taken + size > limit_mib * MIB) return OUT_OF_MEMORY;
    taken += size;
    sizes[++count] = size;
    note(size / MIB);
    *pointer = count;
    return SUCCESS;
}

int cuMemFree_v2(unsigned long long pointer) {
    taken -= sizes[pointer];
    note(-(long)(sizes[pointer] / MIB));
    return SUCCESS;
}
