/* MIG instances: "gpu.0.mig_mode 1", and "gpu.0.mig.PLACE.*" for each place that holds one. */
#include "fake.h"

int nvmlDeviceGetMigMode(Device *of, unsigned *current, unsigned *pending)
{
    unsigned long long mode;
    int code = reading("nvmlDeviceGetMigMode", of, "mig_mode", &mode);
    if (!code)
        *current = *pending = (unsigned)mode;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *of, unsigned *count)
{
    *count = 7;
    return refusal("nvmlDeviceGetMaxMigDeviceCount", of);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *of, unsigned place, Device **found)
{
    int code = refusal("nvmlDeviceGetMigDeviceHandleByIndex", of);
    if (code)
        return code;
    /* A GPU instance without compute instance is no MIG device. */
    if (number(-1, "gpu.%d.mig.%u.gi", of->gpu, place) < 0 || number(-1, "gpu.%d.mig.%u.ci", of->gpu, place) < 0)
        return NOT_FOUND;
    *found = device(of->gpu, (int)place);
    return OK;
}

static int of_instance(const char *call, Device *of, const char *name, unsigned *value)
{
    unsigned long long found;
    int code = reading(call, of, name, &found);
    if (!code)
        *value = (unsigned)found;
    return code;
}

int nvmlDeviceGetGpuInstanceId(Device *of, unsigned *id)
{
    return of_instance("nvmlDeviceGetGpuInstanceId", of, "gi", id);
}

int nvmlDeviceGetComputeInstanceId(Device *of, unsigned *id)
{
    return of_instance("nvmlDeviceGetComputeInstanceId", of, "ci", id);
}

/* A GPU instance is handed out as the place that holds it. */
int nvmlDeviceGetGpuInstanceById(Device *of, unsigned id, Device **found)
{
    int code = refusal("nvmlDeviceGetGpuInstanceById", of);
    for (int place = 0; !code && place < PLACES - 1; place++)
        if (number(-1, "gpu.%d.mig.%d.gi", of->gpu, place) == (long long)id) {
            *found = device(of->gpu, place);
            return OK;
        }
    return code ? code : NOT_FOUND;
}

int nvmlGpuInstanceGetInfo(Device *of, GpuInstanceInfo *info)
{
    info->device = device(of->gpu, NOBODY);
    info->profile = 0;
    info->size = 1;
    int code = of_instance("nvmlGpuInstanceGetInfo", of, "gi", &info->id);
    return code ? code : of_instance("nvmlGpuInstanceGetInfo", of, "start", &info->start);
}

int nvmlDeviceGetAttributes_v2(Device *of, Attributes *attributes)
{
    unsigned long long memory;
    if (of->place == NOBODY)
        return NOT_SUPPORTED;
    int code = reading("nvmlDeviceGetAttributes_v2", of, "memory_mib", &memory);
    if (code)
        return code;
    attributes->memory_mb = memory;
    const struct {
        const char *key;
        unsigned *value;
    } parts[] = {
        {"multiprocessors", &attributes->multiprocessors},
        {"copy", &attributes->copy},
        {"decoders", &attributes->decoders},
        {"encoders", &attributes->encoders},
        {"jpeg", &attributes->jpeg},
        {"ofa", &attributes->ofa},
    };
    for (unsigned at = 0; !code && at < sizeof parts / sizeof *parts; at++)
        code = of_instance("nvmlDeviceGetAttributes_v2", of, parts[at].key, parts[at].value);
    return code;
}
