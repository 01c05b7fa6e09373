// A fake driver: the functions of NVML that the device plugin and feature discovery call on a node with one T4.
// Types and names are from nvml.h.
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0 };
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { char legacy_id[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

static int text(char *into, unsigned size, const char *value) { snprintf(into, size, "%s", value); return SUCCESS; }

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *version, unsigned size) { return text(version, size, "580.105.08"); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { static int only; *gpu = &only; return SUCCESS; }
int nvmlDeviceGetUUID(void *gpu, char *uuid, unsigned size) { return text(uuid, size, "GPU-the-only-one"); }
int nvmlDeviceGetName(void *gpu, char *name, unsigned size) { return text(name, size, "Tesla T4"); }
int nvmlDeviceGetMinorNumber(void *gpu, unsigned *number) { *number = 0; return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) { *major = 7, *minor = 5; return SUCCESS; }

int nvmlDeviceGetMemoryInfo(void *gpu, Memory *memory) {
    *memory = (Memory){.total = 15360ull << 20, .free = 15360ull << 20};
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *gpu, Pci *pci) {
    *pci = (Pci){.device = 0x1e};
    return text(pci->bus_id, sizeof pci->bus_id, "00000000:00:1E.0");
}
