/* Cutting an H100: instances are made and destroyed as lines of the state, "gpu.0.mig.PLACE.gi" and so on.
 *
 * Only what a driver refuses is refused: a taken slice, a GPU instance with a compute instance, an instance
 * with processes ("gpu.0.mig.PLACE.compute"), a mode that is switched while there are instances.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_USE = 19, INSUFFICIENT_RESOURCES = 23 };

static const struct {
    unsigned number, id, slices, size, count;
    const char *name;
    int starts[7];
} PROFILES[] = {
    {0, 19, 1, 1, 7, "MIG 1g.10gb", {0, 1, 2, 3, 4, 5, 6}},
    {9, 15, 1, 2, 4, "MIG 1g.20gb", {0, 2, 4, 6}},
    {1, 14, 2, 2, 3, "MIG 2g.20gb", {0, 2, 4}},
    {2, 9, 3, 4, 2, "MIG 3g.40gb", {0, 4}},
    {3, 5, 4, 4, 1, "MIG 4g.40gb", {0}},
    {4, 0, 7, 8, 1, "MIG 7g.80gb", {0}},
};
enum { PROFILE_COUNT = sizeof PROFILES / sizeof *PROFILES };

typedef struct {
    unsigned version, id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
    char name[96];
} GpuInstanceProfileInfo;

typedef struct {
    unsigned version, id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    char name[96];
} ComputeInstanceProfileInfo;

typedef struct {
    unsigned start, size;
} Placement;

typedef struct {
    Device *device, *gpu_instance;
    unsigned id, profile;
    Placement placement;
} ComputeInstanceInfo;

static int row_of(unsigned id)
{
    for (int row = 0; row < PROFILE_COUNT; row++)
        if (PROFILES[row].id == id)
            return row;
    return -1;
}

/* Put a line into the state, or take one away where there is no value. */
static void write_line(const char *key, const char *value)
{
    static char whole[65536];
    char line[512];
    const char *path = getenv("FAKE_NVML_STATE");
    size_t length = strlen(key), used = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, length) || line[length] != ' ')
            used += (size_t)snprintf(whole + used, sizeof whole - used, "%s", line);
    if (file)
        fclose(file);
    if (value)
        snprintf(whole + used, sizeof whole - used, "%s %s\n", key, value);
    else
        whole[used] = 0;
    file = fopen(path, "w");
    fputs(whole, file);
    fclose(file);
}

static void put_text(const Device *of, int place, const char *name, const char *value)
{
    char key[100];
    snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", of->gpu, place, name);
    write_line(key, value);
}

static void put(const Device *of, int place, const char *name, long long value)
{
    char found[40];
    snprintf(found, sizeof found, "%lld", value);
    put_text(of, place, name, value < 0 ? NULL : found);
}

static long long at(const Device *of, int place, const char *name)
{
    return number(-1, "gpu.%d.mig.%d.%s", of->gpu, place, name);
}

int nvmlDeviceSetMigMode(Device *of, unsigned mode, int *status)
{
    char key[40];
    *status = OK;
    int code = refusal("nvmlDeviceSetMigMode", of);
    for (int place = 0; place < PLACES - 1; place++)
        if (!code && at(of, place, "gi") >= 0)
            code = IN_USE;
    if (!code) {
        snprintf(key, sizeof key, "gpu.%d.mig_mode", of->gpu);
        write_line(key, mode ? "1" : "0");
    }
    return code;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Device *of, unsigned profile, GpuInstanceProfileInfo *info)
{
    int code = refusal("nvmlDeviceGetGpuInstanceProfileInfo", of);
    for (int row = 0; !code && row < PROFILE_COUNT; row++)
        if (PROFILES[row].number == profile) {
            info->id = PROFILES[row].id;
            info->slices = PROFILES[row].slices;
            info->instances = PROFILES[row].count;
            snprintf(info->name, sizeof info->name, "%s", PROFILES[row].name);
            return OK;
        }
    return code ? code : NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device *of, unsigned id, Placement *found, unsigned *count)
{
    int code = refusal("nvmlDeviceGetGpuInstancePossiblePlacements", of), row = row_of(id);
    if (code || row < 0)
        return code ? code : INVALID_ARGUMENT;
    *count = PROFILES[row].count;
    for (unsigned each = 0; each < *count; each++)
        found[each] = (Placement){(unsigned)PROFILES[row].starts[each], PROFILES[row].size};
    return OK;
}

int nvmlDeviceGetGpuInstances(Device *of, unsigned id, Device **found, unsigned *count)
{
    int code = refusal("nvmlDeviceGetGpuInstances", of);
    *count = 0;
    for (int place = 0; !code && place < PLACES - 1; place++)
        if (at(of, place, "gi") >= 0 && at(of, place, "profile") == (long long)id)
            found[(*count)++] = device(of->gpu, place);
    return code;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Device *of, unsigned id, const Placement *where, Device **made)
{
    unsigned taken = 0;
    int code = refusal("nvmlDeviceCreateGpuInstanceWithPlacement", of), empty = -1;
    if (code || number(0, "gpu.%d.mig_mode", of->gpu) != 1)
        return code ? code : NOT_SUPPORTED;
    for (int place = PLACES - 2; place >= 0; place--) {
        int row = row_of((unsigned)at(of, place, "profile"));
        if (at(of, place, "gi") < 0)
            empty = place;
        else if (row >= 0)
            taken |= ((1u << PROFILES[row].size) - 1) << at(of, place, "start");
    }
    if (empty < 0 || taken & (((1u << where->size) - 1) << where->start))
        return INSUFFICIENT_RESOURCES;
    put(of, empty, "gi", empty + 1);
    put(of, empty, "start", where->start);
    put(of, empty, "profile", id);
    *made = device(of->gpu, empty);
    return OK;
}

int nvmlGpuInstanceDestroy(Device *of)
{
    int code = refusal("nvmlGpuInstanceDestroy", of);
    if (code || at(of, of->place, "ci") >= 0)
        return code ? code : IN_USE;
    put(of, of->place, "gi", -1);
    put(of, of->place, "start", -1);
    put(of, of->place, "profile", -1);
    return OK;
}

/* A compute instance of each count of slices that its GPU instance has. */
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    Device *of, unsigned profile, unsigned engines, ComputeInstanceProfileInfo *info)
{
    static const unsigned SLICES[] = {1, 2, 3, 4, 7};
    int code = refusal("nvmlGpuInstanceGetComputeInstanceProfileInfo", of);
    int row = row_of((unsigned)at(of, of->place, "profile"));
    if (code || engines || profile > 4 || row < 0 || SLICES[profile] > PROFILES[row].slices)
        return code ? code : NOT_SUPPORTED;
    info->id = profile;
    info->slices = SLICES[profile];
    info->instances = PROFILES[row].slices / SLICES[profile];
    return OK;
}

int nvmlGpuInstanceGetComputeInstances(Device *of, unsigned id, Device **found, unsigned *count)
{
    int code = refusal("nvmlGpuInstanceGetComputeInstances", of);
    *count = 0;
    if (!code && at(of, of->place, "ci") >= 0 && at(of, of->place, "ci_profile") == (long long)id)
        found[(*count)++] = of;
    return code;
}

int nvmlGpuInstanceCreateComputeInstance(Device *of, unsigned id, Device **made)
{
    int code = refusal("nvmlGpuInstanceCreateComputeInstance", of);
    if (code || at(of, of->place, "ci") >= 0)
        return code ? code : INSUFFICIENT_RESOURCES;
    put(of, of->place, "ci", 0);
    put(of, of->place, "ci_profile", id);
    put_text(of, of->place, "uuid", "MIG-made");
    put_text(of, of->place, "compute", "");
    put_text(of, of->place, "graphics", "");
    *made = of;
    return OK;
}

int nvmlComputeInstanceGetInfo_v2(Device *of, ComputeInstanceInfo *info)
{
    info->device = info->gpu_instance = of;
    info->id = (unsigned)at(of, of->place, "ci");
    info->profile = (unsigned)at(of, of->place, "ci_profile");
    return refusal("nvmlComputeInstanceGetInfo", of);
}

int nvmlComputeInstanceDestroy(Device *of)
{
    char processes[400];
    int code = refusal("nvmlComputeInstanceDestroy", of);
    if (!code && text(processes, sizeof processes, "gpu.%d.mig.%d.compute", of->gpu, of->place) && *processes)
        code = IN_USE;
    if (!code) {
        put(of, of->place, "ci", -1);
        put(of, of->place, "ci_profile", -1);
    }
    return code;
}
