// The fake driver of the share proof as a client of MPS. With a daemon at CUDA_MPS_PIPE_DIRECTORY, the two other variables
// limit the process; without one, it has the entire GPU and no error (docs/benchmarks/mps-on-an-h100-2026-11-26.md).
// FAKE_UNLIMITED names what is not limited: alloc, create, free, threads.
#define cuMemAlloc_v2 unlimited_alloc
#define cuMemFree_v2 unlimited_free
#define cuMemGetInfo_v2 unlimited_info
#include "../components/libcuda.c"
#undef cuMemAlloc_v2
#undef cuMemFree_v2
#undef cuMemGetInfo_v2
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { RPC_FAILURE = 806, MULTIPROCESSORS = 132, CONTEXT_MIB = 27 };
static size_t created, pieces[4096];
static int made, is_client;

static int finds_daemon(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    if (!folder) return 0;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control", folder);
    // A socket of another type asks nothing of the daemon: the kernel answers that the type is wrong.
    int file = socket(AF_UNIX, SOCK_DGRAM, 0);
    int found = connect(file, (struct sockaddr *)&address, sizeof address) && errno == EPROTOTYPE;
    close(file);
    return found;
}

// Asked once, as the real one does.
static int in_mps(void) {
    if (!is_client) is_client = finds_daemon() ? 1 : -1;
    return is_client > 0;
}

static int is_free(const char *what) { return getenv("FAKE_UNLIMITED") && strstr(getenv("FAKE_UNLIMITED"), what); }

// "0=48935M": only an entry for device 0 counts.
static size_t room(const char *what) {
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    long limit = number("FAKE_MIB", 15110);
    if (in_mps() && !is_free(what) && text && !strncmp(text, "0=", 2)) limit = atol(text + 2);
    return (limit - CONTEXT_MIB) * MIB;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t size) {
    if (taken + created + size > room("alloc")) return OUT_OF_MEMORY;
    taken += size, pieces[++made] = size, *pointer = made;
    return SUCCESS;
}

int cuMemFree_v2(unsigned long long pointer) { taken -= pieces[pointer]; return SUCCESS; }

int cuMemCreate(unsigned long long *handle, size_t size, const int *properties, unsigned long long flags) {
    // Type, no shared handle, and the location: the device of the context.
    if (properties[0] != 1 || properties[1] || properties[2] != 1 || properties[3] != 7 || flags) return 1;
    if (taken + created + size > room("create")) return OUT_OF_MEMORY;
    created += size, pieces[++made] = size, *handle = made;
    return SUCCESS;
}

int cuMemRelease(unsigned long long handle) { created -= pieces[handle]; return SUCCESS; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *bytes) {
    if (in_mps() && !finds_daemon()) return RPC_FAILURE;
    *bytes = number("FAKE_MIB", 15110) * MIB;
    *free_bytes = room("free") - taken - created;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *found, int attribute, int device) {
    const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    *found = MULTIPROCESSORS;
    if (attribute != 16 || device != 7) return 1;
    if (in_mps() && percent && !is_free("threads")) *found = MULTIPROCESSORS * atoi(percent) / 100;
    return SUCCESS;
}
