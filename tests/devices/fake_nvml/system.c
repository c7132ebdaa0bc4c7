/* The library itself, and finding cards. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

#ifndef LIBRARY_VERSION
#define LIBRARY_VERSION "580.95.05"
#endif

static int initialised;

/* As the real one: the kernel's module has to be of the library's own version. */
int nvmlInitWithFlags(unsigned flags)
{
    char module[80];
    (void)flags;
    int code = refusal("nvmlInit", NULL);
    if (code)
        return code;
    if (text(module, sizeof module, "module") && strcmp(module, LIBRARY_VERSION) != 0)
        return VERSION_MISMATCH;
    if (__sync_add_and_fetch(&initialised, 1) == 1)
        events_taken = 0;
    return OK;
}

int nvmlShutdown(void)
{
    if (initialised <= 0)
        return UNINITIALIZED;
    __sync_sub_and_fetch(&initialised, 1);
    return OK;
}

/* For tests: how often it was initialised and not shut down. */
int fakeInitialised(void)
{
    return initialised;
}

const char *nvmlErrorString(int code)
{
    (void)code;
    return "told by the fake library";
}

static int answer(const char *call, const char *key, char *value, unsigned size)
{
    int code = initialised > 0 ? refusal(call, NULL) : UNINITIALIZED;
    if (code)
        return code;
    return text(value, size, "%s", key) ? OK : NOT_SUPPORTED;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    return answer("nvmlSystemGetDriverVersion", "driver", version, size);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned size)
{
    snprintf(version, size, "13.%s", LIBRARY_VERSION);
    return refusal("nvmlSystemGetNVMLVersion", NULL);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = (int)number(0, "cuda");
    return refusal("nvmlSystemGetCudaDriverVersion_v2", NULL);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (initialised <= 0)
        return UNINITIALIZED;
    *count = (unsigned)number(0, "gpus");
    return refusal("nvmlDeviceGetCount", NULL);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **found)
{
    if (index >= (unsigned)number(0, "gpus"))
        return INVALID_ARGUMENT;
    *found = device((int)index, NOBODY);
    return refusal("nvmlDeviceGetHandleByIndex", *found);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **found)
{
    char known[96];
    for (int gpu = 0; gpu < number(0, "gpus"); gpu++)
        if (text(known, sizeof known, "gpu.%d.uuid", gpu) && strcmp(known, uuid) == 0) {
            *found = device(gpu, NOBODY);
            return refusal("nvmlDeviceGetHandleByUUID", *found);
        }
    return NOT_FOUND;
}
