/* What does not change about a card, and the links between cards. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

static int words(const char *call, const Device *of, const char *name, char *value, unsigned size)
{
    int code = refusal(call, of);
    if (code)
        return code;
    return text(value, size, "%s.%s", prefix(of), name) ? OK : NOT_SUPPORTED;
}

static int count(const char *call, const Device *of, const char *name, unsigned *value)
{
    unsigned long long found;
    int code = reading(call, of, name, &found);
    if (!code)
        *value = (unsigned)found;
    return code;
}

int nvmlDeviceGetUUID(Device *of, char *uuid, unsigned size)
{
    return words("nvmlDeviceGetUUID", of, "uuid", uuid, size);
}

int nvmlDeviceGetName(Device *of, char *name, unsigned size)
{
    return words("nvmlDeviceGetName", of, "name", name, size);
}

int nvmlDeviceGetSerial(Device *of, char *serial, unsigned size)
{
    return words("nvmlDeviceGetSerial", of, "serial", serial, size);
}

int nvmlDeviceGetPciInfo_v3(Device *of, PciInfo *info)
{
    memset(info, 0, sizeof *info);
    return words("nvmlDeviceGetPciInfo", of, "pci", info->bus_id, sizeof info->bus_id);
}

int nvmlDeviceGetMinorNumber(Device *of, unsigned *minor)
{
    return count("nvmlDeviceGetMinorNumber", of, "minor", minor);
}

int nvmlDeviceGetNumGpuCores(Device *of, unsigned *cores)
{
    return count("nvmlDeviceGetNumGpuCores", of, "cores", cores);
}

int nvmlDeviceGetArchitecture(Device *of, unsigned *architecture)
{
    return count("nvmlDeviceGetArchitecture", of, "architecture", architecture);
}

int nvmlDeviceGetBrand(Device *of, unsigned *brand)
{
    return count("nvmlDeviceGetBrand", of, "brand", brand);
}

int nvmlDeviceGetCudaComputeCapability(Device *of, int *major, int *minor)
{
    char found[20];
    int code = words("nvmlDeviceGetCudaComputeCapability", of, "capability", found, sizeof found);
    if (!code && sscanf(found, "%d.%d", major, minor) != 2)
        return INVALID_ARGUMENT;
    return code;
}

int nvmlDeviceGetMemoryAffinity(Device *of, unsigned size, unsigned long *nodes, unsigned scope)
{
    unsigned long long found;
    (void)scope;
    int code = reading("nvmlDeviceGetMemoryAffinity", of, "affinity", &found);
    if (code)
        return code;
    memset(nodes, 0, size * sizeof *nodes);
    nodes[0] = found;
    return OK;
}

/* "gpu.0.fabric STATE STATUS CLIQUE CLUSTER", the cluster as 32 hexadecimal digits. */
int nvmlDeviceGetGpuFabricInfoV(Device *of, FabricV2 *info)
{
    char found[100], cluster[40];
    unsigned state;
    if (info->version != 0x02000024)
        return ARGUMENT_VERSION_MISMATCH;
    int code = words("nvmlDeviceGetGpuFabricInfoV", of, "fabric", found, sizeof found);
    if (code)
        return code;
    if (sscanf(found, "%u %d %u %32s", &state, &info->status, &info->clique, cluster) != 4)
        return INVALID_ARGUMENT;
    info->state = (unsigned char)state;
    for (int at = 0; at < 16; at++)
        sscanf(cluster + 2 * at, "%2hhx", &info->cluster[at]);
    return OK;
}

static int pair(const char *call, const Device *one, const Device *other, const char *name, unsigned *value)
{
    int code = refusal(call, one);
    code = code ? code : refusal(call, other);
    int low = one->gpu < other->gpu ? one->gpu : other->gpu;
    int high = one->gpu < other->gpu ? other->gpu : one->gpu;
    long long found = number(-1, "pair.%d.%d.%s", low, high, name);
    if (code || found < 0)
        return code ? code : NOT_SUPPORTED;
    *value = (unsigned)found;
    return OK;
}

/* Of the ways between two cards only NVLink (2) is asked for. */
int nvmlDeviceGetP2PStatus(Device *one, Device *other, unsigned way, unsigned *status)
{
    if (way != 2)
        return INVALID_ARGUMENT;
    return pair("nvmlDeviceGetP2PStatus", one, other, "p2p", status);
}

int nvmlDeviceGetTopologyCommonAncestor(Device *one, Device *other, unsigned *ancestor)
{
    return pair("nvmlDeviceGetTopologyCommonAncestor", one, other, "ancestor", ancestor);
}

/* "gpu.0.link.N BUS_ID": the far end of a link; "down" where it is not active. */
int nvmlDeviceGetNvLinkState(Device *of, unsigned link, unsigned *active)
{
    char end[40];
    int code = refusal("nvmlDeviceGetNvLinkState", of);
    if (code)
        return code;
    if (!text(end, sizeof end, "gpu.%d.link.%u", of->gpu, link))
        return NOT_SUPPORTED;
    *active = strcmp(end, "down") != 0;
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *of, unsigned link, PciInfo *info)
{
    memset(info, 0, sizeof *info);
    int code = refusal("nvmlDeviceGetNvLinkRemotePciInfo", of);
    if (code)
        return code;
    return text(info->bus_id, sizeof info->bus_id, "gpu.%d.link.%u", of->gpu, link) ? OK : NOT_SUPPORTED;
}
