/* A stand-in for libnvidia-ml.so.1, for tests: it answers what a text file says.
 *
 * The file is named by FAKE_NVML_STATE and read anew at each call, so that a test changes the machine by
 * writing it. Each line is a key and a value ("gpu.0.name NVIDIA H100"); see ../nvml_machine.py, which
 * writes it. What has no line is not supported. These keys make a call fail, of a card or of anything:
 *
 *   fail.CALL n          every CALL returns n
 *   gpu.N.fail.CALL n    of card N it does
 *   gpu.N.lost 1         every call about card N returns "GPU is lost"
 *   gpu.N.reset_needed 1 every call about card N returns "reset required"
 *   gpu.N.hang 1         every call about card N hangs until the line is gone
 *
 * Structures are laid out as in nvml.h of driver 580; their sizes are asserted here.
 */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stddef.h>

enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    VERSION_MISMATCH = 18,
    ARGUMENT_VERSION_MISMATCH = 25,
};

enum { NOBODY = -1, GPUS = 16, PLACES = 8 };

/* What a handle points to: a card, or an instance (place) of it. */
typedef struct {
    int gpu;
    int place;
} Device;

typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} PciInfo;
_Static_assert(sizeof(PciInfo) == 68, "nvmlPciInfo_t");

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryV2;
_Static_assert(sizeof(MemoryV2) == 40, "nvmlMemory_v2_t");

typedef struct {
    unsigned gpu, memory;
} Utilization;

typedef union {
    double d;
    unsigned ui;
    unsigned long ul;
    unsigned long long ull;
} Value;

typedef struct {
    unsigned field, scope;
    long long timestamp, latency_us;
    int type, code;
    Value value;
} FieldValue;
_Static_assert(sizeof(FieldValue) == 40, "nvmlFieldValue_t");

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;
_Static_assert(sizeof(ProcessInfo) == 24, "nvmlProcessInfo_t");

typedef struct {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
} ProcessSample;
_Static_assert(sizeof(ProcessSample) == 32, "nvmlProcessUtilizationSample_t");

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
} FabricV2;
_Static_assert(sizeof(FabricV2) == 36, "nvmlGpuFabricInfo_v2_t");

typedef struct {
    unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} Attributes;
_Static_assert(sizeof(Attributes) == 40, "nvmlDeviceAttributes_t");

typedef struct {
    Device *device;
    unsigned id, profile, start, size;
} GpuInstanceInfo;
_Static_assert(sizeof(GpuInstanceInfo) == 24, "nvmlGpuInstanceInfo_t");

typedef struct {
    unsigned code, state;
    char license[128], product[128];
    unsigned enabled;
    unsigned year;
    unsigned short month, day, hour, minute, second;
    unsigned char status;
} LicensableFeature;
typedef struct {
    int supported;
    unsigned count;
    LicensableFeature features[3];
} LicensableFeatures;
_Static_assert(sizeof(LicensableFeatures) == 860, "nvmlGridLicensableFeatures_t");

typedef struct {
    unsigned version, sensor;
    int celsius;
} TemperatureV1;

typedef struct {
    unsigned version, supported;
} GpmSupport;
typedef struct {
    int gpu, instance;
    unsigned long long reading;
} GpmSample;
typedef struct {
    unsigned metric;
    int code;
    double value;
    char *short_name, *long_name, *unit;
} GpmMetric;
_Static_assert(sizeof(GpmMetric) == 40, "nvmlGpmMetric_t");
typedef struct {
    unsigned version, count;
    GpmSample *before, *after;
    GpmMetric metrics[];
} GpmMetrics;

typedef struct {
    unsigned long long kinds[GPUS];
} EventSet;
typedef struct {
    Device *device;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
} EventData;
_Static_assert(sizeof(EventData) == 32, "nvmlEventData_t");

/* Whether the state has a line of this key; its text is put where `value` points. */
int text(char *value, size_t size, const char *key, ...) __attribute__((format(printf, 3, 4)));
/* The number of a line; `otherwise` where there is none. */
long long number(long long otherwise, const char *key, ...) __attribute__((format(printf, 2, 3)));
/* How many events were handed out since the library was initialised. */
extern unsigned events_taken;
void pause_ms(int ms);
Device *device(int gpu, int place);
/* Whether a call is to fail by the state, and how; hangs where the state says so. */
int refusal(const char *call, const Device *of);
/* The prefix of a card's or instance's keys, "gpu.0" or "gpu.0.mig.1". */
const char *prefix(const Device *of);
/* A number of a card: its code, and the number where that is OK. */
int reading(const char *call, const Device *of, const char *name, unsigned long long *value);

#endif
