// A fake driver: the functions of libcuda that a share proof calls. Environment variables set its behaviour.
// Codes and names are from cuda.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, TOTAL_MIB = 15110 };
static const size_t MIB = 1 << 20;
static size_t taken, sizes[16];
static int count;
static long limit_mib;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

int cuGetErrorName(int code, const char **name) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return code == OUT_OF_MEMORY ? SUCCESS : 1;
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
    limit_mib = number("FAKE_LIMIT_MIB", TOTAL_MIB);
    if (text && has_daemon() && sscanf(text, "0=%ldM", &own) == 1 && own < limit_mib) limit_mib = own;
    return SUCCESS;
}

int cuDeviceGetCount(int *found) { *found = 1; return SUCCESS; }

int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal == 0 ? SUCCESS : INVALID_DEVICE; }

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device != 7) return INVALID_DEVICE;
    while (getenv("FAKE_HANG")) pause();
    *context = &taken;
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) { return context == &taken ? SUCCESS : 1; }

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "Tesla T4");
    return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *id, int device) { memset(id, 0xAA, 16); return SUCCESS; }

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = number("FAKE_MIB", TOTAL_MIB) * MIB; return SUCCESS; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *bytes) {
    *bytes = number("FAKE_MIB", TOTAL_MIB) * MIB;
    *free_bytes = *bytes - taken;
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t size) {
    if (getenv("FAKE_DIE")) _exit(3);
    if (taken + size > limit_mib * MIB) return OUT_OF_MEMORY;
    taken += size;
    sizes[++count] = size;
    *pointer = count;
    return SUCCESS;
}

int cuMemFree_v2(unsigned long long pointer) {
    taken -= sizes[pointer];
    return SUCCESS;
}
