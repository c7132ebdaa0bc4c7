/* Events: "event.N GPU KIND DATA GI CI", N from 0 on; GPU -1 where the driver does not say which. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

static long sets;
unsigned events_taken;

/* For tests: sets that were not freed. */
long fakeEventSets(void)
{
    return sets;
}

int nvmlEventSetCreate(EventSet **created)
{
    *created = calloc(1, sizeof **created);
    __sync_add_and_fetch(&sets, 1);
    return OK;
}

int nvmlEventSetFree(EventSet *events)
{
    free(events);
    __sync_sub_and_fetch(&sets, 1);
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(Device *of, unsigned long long *kinds)
{
    return reading("nvmlDeviceGetSupportedEventTypes", of, "events", kinds);
}

/* As the real one: a kind that the card does not report is refused. */
int nvmlDeviceRegisterEvents(Device *of, unsigned long long kinds, EventSet *events)
{
    unsigned long long given;
    int code = reading("nvmlDeviceRegisterEvents", of, "events", &given);
    if (code)
        return code;
    if (!kinds || (kinds & ~given))
        return NOT_SUPPORTED;
    events->kinds[of->gpu] = kinds;
    return OK;
}

/* As the real one: while a card in the set is lost, the wait fails at once. */
int nvmlEventSetWait_v2(EventSet *events, EventData *data, unsigned limit_ms)
{
    for (unsigned waited = 0;; waited += 5) {
        char line[100];
        int gpu;
        unsigned gi, ci;
        int code = refusal("nvmlEventSetWait", NULL);
        if (code)
            return code;
        if (text(line, sizeof line, "event.%u", events_taken)) {
            events_taken++;
            if (sscanf(line, "%d %llx %llu %u %u", &gpu, &data->kind, &data->data, &gi, &ci) != 5)
                return INVALID_ARGUMENT;
            if (gpu != NOBODY && !(events->kinds[gpu] & data->kind))
                continue;
            data->device = gpu == NOBODY ? NULL : device(gpu, NOBODY);
            data->gpu_instance = gi;
            data->compute_instance = ci;
            return OK;
        }
        for (gpu = 0; gpu < GPUS; gpu++)
            if (events->kinds[gpu] && number(0, "gpu.%d.lost", gpu))
                return GPU_IS_LOST;
        if (waited >= limit_ms)
            return TIMEOUT;
        pause_ms(5);
    }
}
