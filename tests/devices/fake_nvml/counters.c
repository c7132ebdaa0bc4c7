/* GPM: "gpm.METRIC PER_READING"; a metric is told once there are two readings of the same card. */
#include "fake.h"

#include <stdlib.h>

static unsigned long long readings;
static long allocated;

/* For tests: buffers that were not freed. */
long fakeGpmBuffers(void)
{
    return allocated;
}

int nvmlGpmQueryDeviceSupport(Device *of, GpmSupport *support)
{
    support->supported = number(0, "gpu.%d.gpm", of->gpu) != 0;
    return refusal("nvmlGpmQueryDeviceSupport", of);
}

int nvmlGpmSampleAlloc(GpmSample **sample)
{
    *sample = calloc(1, sizeof **sample);
    __sync_add_and_fetch(&allocated, 1);
    return OK;
}

int nvmlGpmSampleFree(GpmSample *sample)
{
    free(sample);
    __sync_sub_and_fetch(&allocated, 1);
    return OK;
}

static int read_counters(const char *call, Device *of, int instance, GpmSample *sample)
{
    int code = refusal(call, of);
    if (code)
        return code;
    sample->gpu = of->gpu;
    sample->instance = instance;
    sample->reading = __sync_add_and_fetch(&readings, 1);
    return OK;
}

int nvmlGpmSampleGet(Device *of, GpmSample *sample)
{
    return read_counters("nvmlGpmSampleGet", of, NOBODY, sample);
}

int nvmlGpmMigSampleGet(Device *of, unsigned instance, GpmSample *sample)
{
    return read_counters("nvmlGpmMigSampleGet", of, (int)instance, sample);
}

int nvmlGpmMetricsGet(GpmMetrics *asked)
{
    const GpmSample *before = asked->before, *after = asked->after;
    if (asked->version != 1)
        return ARGUMENT_VERSION_MISMATCH;
    if (before->gpu != after->gpu || before->instance != after->instance || before->reading >= after->reading)
        return INVALID_ARGUMENT;
    for (unsigned at = 0; at < asked->count; at++) {
        char found[40];
        GpmMetric *one = &asked->metrics[at];
        int given = after->instance == NOBODY
            ? text(found, sizeof found, "gpu.%d.gpm.%u", after->gpu, one->metric)
            : text(found, sizeof found, "gpu.%d.gi.%d.gpm.%u", after->gpu, after->instance, one->metric);
        one->code = given ? OK : NOT_SUPPORTED;
        one->value = given ? strtod(found, NULL) : 0;
    }
    return OK;
}
