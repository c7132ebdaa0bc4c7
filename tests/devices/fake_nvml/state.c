/* The state that the tests write, and what every call looks up in it. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static Device devices[GPUS][PLACES + 1];

static int line_of(const char *key, char *value, size_t size)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    size_t length = strlen(key);
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        found = strncmp(line, key, length) == 0 && line[length] == ' ';
    }
    if (file)
        fclose(file);
    if (found)
        snprintf(value, size, "%s", line + length + 1);
    return found;
}

int text(char *value, size_t size, const char *key, ...)
{
    char name[200];
    va_list rest;
    va_start(rest, key);
    vsnprintf(name, sizeof name, key, rest);
    va_end(rest);
    return line_of(name, value, size);
}

long long number(long long otherwise, const char *key, ...)
{
    char name[200], value[100];
    va_list rest;
    va_start(rest, key);
    vsnprintf(name, sizeof name, key, rest);
    va_end(rest);
    return line_of(name, value, sizeof value) ? (long long)strtoull(value, NULL, 0) : otherwise;
}

void pause_ms(int ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000L};
    nanosleep(&time, NULL);
}

Device *device(int gpu, int place)
{
    Device *found = &devices[gpu][place + 1];
    found->gpu = gpu;
    found->place = place;
    return found;
}

int refusal(const char *call, const Device *of)
{
    int code = (int)number(OK, "fail.%s", call);
    if (code || !of)
        return code;
    while (number(0, "gpu.%d.hang", of->gpu))
        pause_ms(5);
    if (number(0, "gpu.%d.lost", of->gpu))
        return GPU_IS_LOST;
    if (number(0, "gpu.%d.reset_needed", of->gpu))
        return RESET_REQUIRED;
    return (int)number(OK, "gpu.%d.fail.%s", of->gpu, call);
}

const char *prefix(const Device *of)
{
    static _Thread_local char made[64];
    if (of->place == NOBODY)
        snprintf(made, sizeof made, "gpu.%d", of->gpu);
    else
        snprintf(made, sizeof made, "gpu.%d.mig.%d", of->gpu, of->place);
    return made;
}

int reading(const char *call, const Device *of, const char *name, unsigned long long *value)
{
    char found[100];
    int code = refusal(call, of);
    if (code)
        return code;
    if (!text(found, sizeof found, "%s.%s", prefix(of), name))
        return NOT_SUPPORTED;
    *value = strtoull(found, NULL, 0);
    return OK;
}
