/* One moment of a card or an instance, and who is on it. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int small(const char *call, const Device *of, const char *name, unsigned *value)
{
    unsigned long long found;
    int code = reading(call, of, name, &found);
    if (!code)
        *value = (unsigned)found;
    return code;
}

/* "memory TOTAL RESERVED USED", in MiB. */
int nvmlDeviceGetMemoryInfo_v2(Device *of, MemoryV2 *memory)
{
    char found[100];
    unsigned long long total, reserved, used;
    if (memory->version != 0x02000028)
        return ARGUMENT_VERSION_MISMATCH;
    int code = refusal("nvmlDeviceGetMemoryInfo", of);
    if (code)
        return code;
    if (!text(found, sizeof found, "%s.memory", prefix(of)))
        return NOT_SUPPORTED;
    if (sscanf(found, "%llu %llu %llu", &total, &reserved, &used) != 3)
        return INVALID_ARGUMENT;
    memory->total = total << 20;
    memory->reserved = reserved << 20;
    memory->used = used << 20;
    memory->free = (total - reserved - used) << 20;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Device *of, Utilization *busy)
{
    int code = small("nvmlDeviceGetUtilizationRates", of, "busy", &busy->gpu);
    return code ? code : small("nvmlDeviceGetUtilizationRates", of, "memory_busy", &busy->memory);
}

int nvmlDeviceGetEncoderUtilization(Device *of, unsigned *busy, unsigned *period_us)
{
    *period_us = 167000;
    return small("nvmlDeviceGetEncoderUtilization", of, "encoder", busy);
}

int nvmlDeviceGetDecoderUtilization(Device *of, unsigned *busy, unsigned *period_us)
{
    *period_us = 167000;
    return small("nvmlDeviceGetDecoderUtilization", of, "decoder", busy);
}

int nvmlDeviceGetPowerUsage(Device *of, unsigned *milliwatts)
{
    return small("nvmlDeviceGetPowerUsage", of, "power_mw", milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(Device *of, unsigned long long *millijoules)
{
    return reading("nvmlDeviceGetTotalEnergyConsumption", of, "energy_mj", millijoules);
}

int nvmlDeviceGetTemperatureV(Device *of, TemperatureV1 *temperature)
{
    unsigned celsius;
    int code = small("nvmlDeviceGetTemperatureV", of, "celsius", &celsius);
    if (!code)
        temperature->celsius = (int)celsius;
    return code;
}

/* The call of older drivers. */
int nvmlDeviceGetTemperature(Device *of, unsigned sensor, unsigned *celsius)
{
    return sensor ? INVALID_ARGUMENT : small("nvmlDeviceGetTemperature", of, "celsius_old", celsius);
}

int nvmlDeviceGetClockInfo(Device *of, unsigned domain, unsigned *mhz)
{
    return small("nvmlDeviceGetClockInfo", of, domain == 1 ? "sm_mhz" : "memory_mhz", mhz);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *of, unsigned long long *reasons)
{
    return reading("nvmlDeviceGetCurrentClocksEventReasons", of, "clock_events", reasons);
}

/* The call of older drivers. */
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *of, unsigned long long *reasons)
{
    return reading("nvmlDeviceGetCurrentClocksThrottleReasons", of, "clock_events_old", reasons);
}

int nvmlDeviceGetPcieReplayCounter(Device *of, unsigned *replays)
{
    return small("nvmlDeviceGetPcieReplayCounter", of, "replays", replays);
}

int nvmlDeviceGetCurrPcieLinkWidth(Device *of, unsigned *lanes)
{
    return small("nvmlDeviceGetCurrPcieLinkWidth", of, "pcie_width", lanes);
}

/* The slowdown threshold (1) alone. */
int nvmlDeviceGetTemperatureThreshold(Device *of, unsigned threshold, unsigned *celsius)
{
    if (threshold != 1)
        return INVALID_ARGUMENT;
    return small("nvmlDeviceGetTemperatureThreshold", of, "slowdown_celsius", celsius);
}

/* "remapped CORRECTABLE UNCORRECTABLE PENDING FAILED" */
int nvmlDeviceGetRemappedRows(Device *of, unsigned *good, unsigned *bad, unsigned *pending, unsigned *failed)
{
    char found[100];
    int code = refusal("nvmlDeviceGetRemappedRows", of);
    if (code)
        return code;
    if (!text(found, sizeof found, "%s.remapped", prefix(of)))
        return NOT_SUPPORTED;
    return sscanf(found, "%u %u %u %u", good, bad, pending, failed) == 4 ? OK : INVALID_ARGUMENT;
}

/* Uncorrected (1) since the driver was loaded (0). */
int nvmlDeviceGetTotalEccErrors(Device *of, unsigned type, unsigned counter, unsigned long long *errors)
{
    if (type != 1 || counter != 0)
        return INVALID_ARGUMENT;
    return reading("nvmlDeviceGetTotalEccErrors", of, "uncorrected", errors);
}

/* "license 1": a virtual GPU, licensed or not; a real card has no line, and says that it needs none. */
int nvmlDeviceGetGridLicensableFeatures_v4(Device *of, LicensableFeatures *found)
{
    long long licensed = number(-1, "%s.license", prefix(of));
    memset(found, 0, sizeof *found);
    found->supported = licensed >= 0;
    found->count = licensed >= 0;
    found->features[0].state = licensed > 0;
    return refusal("nvmlDeviceGetGridLicensableFeatures", of);
}

/* "field.NUMBER" or "field.NUMBER.SCOPE": each a value of 64 bits. */
int nvmlDeviceGetFieldValues(Device *of, int count, FieldValue *values)
{
    char found[100];
    int code = refusal("nvmlDeviceGetFieldValues", of);
    for (int at = 0; !code && at < count; at++) {
        FieldValue *one = &values[at];
        int given = one->scope
            ? text(found, sizeof found, "%s.field.%u.%u", prefix(of), one->field, one->scope)
            : text(found, sizeof found, "%s.field.%u", prefix(of), one->field);
        one->code = given ? OK : NOT_SUPPORTED;
        if (given && strchr(found, 'u')) {
            one->type = 1;
            one->value.ui = (unsigned)strtoul(found, NULL, 0);
        } else if (given) {
            one->type = 3;
            one->value.ull = strtoull(found, NULL, 0);
        }
    }
    return code;
}

/* "compute PID:MIB PID:MIB" and "graphics ...": an empty list is a line without any. */
static int running(const char *call, const Device *of, const char *list, unsigned *count, ProcessInfo *infos)
{
    char found[400];
    unsigned room = *count, seen = 0;
    int code = refusal(call, of);
    if (code)
        return code;
    if (!text(found, sizeof found, "%s.%s", prefix(of), list))
        return NOT_SUPPORTED;
    char *rest = NULL;
    for (char *one = strtok_r(found, " ", &rest); one; one = strtok_r(NULL, " ", &rest), seen++) {
        char *memory = strchr(one, ':');
        if (!infos || seen >= room)
            continue;
        infos[seen].pid = (unsigned)atoi(one);
        infos[seen].memory = memory ? strtoull(memory + 1, NULL, 10) << 20 : ~0ULL;
        infos[seen].gpu_instance = infos[seen].compute_instance = ~0U;
    }
    *count = seen;
    return seen > (infos ? room : 0) ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *of, unsigned *count, ProcessInfo *infos)
{
    return running("nvmlDeviceGetComputeRunningProcesses", of, "compute", count, infos);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *of, unsigned *count, ProcessInfo *infos)
{
    return running("nvmlDeviceGetGraphicsRunningProcesses", of, "graphics", count, infos);
}

/* "process_busy PID:SM:TIME_US ...": those of a later time than asked for. */
int nvmlDeviceGetProcessUtilization(
    Device *of, ProcessSample *samples, unsigned *count, unsigned long long after_us)
{
    char found[400];
    unsigned room = *count, seen = 0;
    int code = refusal("nvmlDeviceGetProcessUtilization", of);
    if (code)
        return code;
    if (!text(found, sizeof found, "%s.process_busy", prefix(of)))
        return NOT_SUPPORTED;
    char *rest = NULL;
    for (char *one = strtok_r(found, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        ProcessSample sample = {0};
        if (sscanf(one, "%u:%u:%llu", &sample.pid, &sample.sm, &sample.timestamp) != 3)
            return INVALID_ARGUMENT;
        if (sample.timestamp <= after_us)
            continue;
        if (samples && seen < room)
            samples[seen] = sample;
        seen++;
    }
    *count = seen;
    if (!seen)
        return NOT_FOUND;
    return samples && seen <= room ? OK : INSUFFICIENT_SIZE;
}
