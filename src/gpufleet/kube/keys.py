"""Labels, annotations and resources that people and other projects write and we read.

One name, one constant: the documents (``docs/pod-inputs.md``) list the same table, and a test holds the two
together. What each means is said by the module of ``codec`` that reads it. Our own keys exist only where no
other project had one.
"""

# Pods are ours by this spec.schedulerName; the settings may choose another.
SCHEDULER_NAME = "gpufleet"

# Written by our scheduler alone; an admission policy refuses all other writers.
GRANT = "gpufleet.io/grant"

# What a placed pod stands in for that was moved. Written by our scheduler with the grant, guarded as it is.
MOVED = "gpufleet.io/moved"

# Part of a namespace's labels: our admission policy completes pods there, and where its work queues.
MANAGED = "gpufleet.io/managed"

# Our share of one GPU: a fraction, or an amount of memory.
GPU_FRACTION = "gpufleet.io/gpu-fraction"
GPU_MEMORY = "gpufleet.io/gpu-memory"
# Models of GPU in the order in which they are wanted.
GPU_MODELS = "gpufleet.io/gpu-models"
# Models and datasets that a pod reads, their size, and whether it starts without: Prefer or Require.
DATA = "gpufleet.io/data"
DATA_SIZE = "gpufleet.io/data-size"
DATA_POLICY = "gpufleet.io/data-policy"
# On NodeData: which models and datasets shall be copied to the node, and which stay there.
DATA_WANTED = "gpufleet.io/data-wanted"
# Labels of nodes: NVMe disks of their own, their size together, and how GPUs read from storage directly.
NVME_DISKS = "gpufleet.io/nvme-disks"
NVME_GIB = "gpufleet.io/nvme-gib"
GPUDIRECT_STORAGE = "gpufleet.io/gpudirect-storage"
# On a pod of KServe: from where its storage initializer copies the model.
KSERVE_SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
# Begin and end of the label by which a pod names a dataset of Fluid, and the begin of the label by which a
# claim says of which it is.
FLUID_DATASET_BEGIN = "fluid.io/dataset."
FLUID_DATASET_END = ".sched"
FLUID_CLAIM_BEGIN = "fluid.io/s-"
# How near to each other the GPUs of one pod must be: "link-group" or "numa-node".
GPUS_WITHIN = "gpufleet.io/gpus-within"
# The kubelet's slot for one share of one GPU (extended resource).
GPU_SHARE = "gpufleet.io/gpu-share"
# The taint of pools in which whole GPUs and shares mix.
SHARED_POOL_TAINT = "gpufleet.io/shared"

# Shares as KAI's annotations ask for them.
KAI_FRACTION = "gpu-fraction"
KAI_MEMORY = "gpu-memory"
KAI_DEVICES = "gpu-fraction-num-devices"
KAI_CONTAINER = "gpu-fraction-container-name"

# Shares as HAMI's resources ask for them, and HAMi's annotations on models of GPU.
HAMI_MEMORY = "nvidia.com/gpumem"
HAMI_MEMORY_PERCENT = "nvidia.com/gpumem-percentage"
HAMI_CORES = "nvidia.com/gpucores"
HAMI_PRIORITY = "nvidia.com/priority"
HAMI_USE_MODEL = "nvidia.com/use-gputype"
HAMI_AVOID_MODEL = "nvidia.com/nouse-gputype"

# Which CUDA the containers need: "12.4", or "any" where the name of an image is not to be believed.
CUDA_VERSION = "gpufleet.io/cuda-version"
# How long a pod says that it runs at most, as in 1h30m.
RUN_TIME = "gpufleet.io/run-time"
# Variables of NVIDIA's container toolkit.
REQUIRE_CUDA = "NVIDIA_REQUIRE_CUDA"
DISABLE_REQUIRE = "NVIDIA_DISABLE_REQUIRE"
CUDA_VARIABLES = frozenset({REQUIRE_CUDA, DISABLE_REQUIRE})
# The one by which its runtime is told which devices a container gets, and its values that hide all of them.
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
HIDING_VALUES = frozenset({"", "void", "none"})

# Shares as Volcano's resources ask for them, and Volcano's annotation on NUMA nodes.
VOLCANO_NUMBER = "volcano.sh/vgpu-number"
VOLCANO_MEMORY = "volcano.sh/vgpu-memory"
VOLCANO_MEMORY_PERCENT = "volcano.sh/vgpu-memory-percentage"
VOLCANO_CORES = "volcano.sh/vgpu-cores"
VOLCANO_NUMA_POLICY = "volcano.sh/numa-topology-policy"

# Resources that describe a share of a GPU and are no devices by themselves.
SHARE_RESOURCES = (
    HAMI_MEMORY,
    HAMI_MEMORY_PERCENT,
    HAMI_CORES,
    HAMI_PRIORITY,
    VOLCANO_NUMBER,
    VOLCANO_MEMORY,
    VOLCANO_MEMORY_PERCENT,
    VOLCANO_CORES,
)

# Queues; the first that a pod has counts.
QUEUE = "gpufleet.io/queue"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KAI_QUEUE = "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
VOLCANO_QUEUE_SHORT = "volcano.sh/queue-name"
QUEUE_KEYS = (QUEUE, KUEUE_QUEUE, KAI_QUEUE, VOLCANO_QUEUE, VOLCANO_QUEUE_SHORT)

# For how long a pod may run; Kueue's is a label, in seconds.
RUN_TIME_MAX = "gpufleet.io/run-time-max"
KUEUE_RUN_TIME_MAX = "kueue.x-k8s.io/max-exec-time-seconds"
# On a pod that serves a page of metrics of its own: its port, and its path if it is not /metrics.
METRICS_PORT = "gpufleet.io/metrics-port"
METRICS_PATH = "gpufleet.io/metrics-path"

# In the selector of an external metric: by which autoscaler's workload an amount is limited to what has room.
METRIC_LIMIT = "gpufleet.io/limit"

# Which namespace it is, on every namespace.
NAMESPACE_NAME = "kubernetes.io/metadata.name"

# On the image of a static pod: it runs already, as a file of its node says.
MIRROR = "kubernetes.io/config.mirror"

# What an application and a part of it are called, by the recommended labels.
APPLICATION = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"

# Evictions. On a PriorityClass, as a label: "false" where its pods are never evicted for others' sake.
PREEMPTIBLE = "gpufleet.io/preemptible"
# "true": the pod may be ended at any time without loss, so it may run where others will start.
VICTIMS = "gpufleet.io/victims"
"""On the Lease of the scheduler: by which search its leader finds pods to evict."""
INTERRUPTIBLE = "gpufleet.io/interruptible"
# When the pod saved its work last, as a time of the API.
CHECKPOINTED_AT = "gpufleet.io/checkpointed-at"
# "true": the pod saves its work when CHECKPOINT_REQUESTED asks for it, and says so by CHECKPOINTED_AT.
CHECKPOINT_ON_REQUEST = "gpufleet.io/checkpoint-on-request"
# When a pod was asked to save its work, and by when it should have: two times of the API, "/" between them.
CHECKPOINT_REQUESTED = "gpufleet.io/checkpoint-requested"
# On a pod that has to leave its node: to which node. The scheduler keeps a place there and evicts the pod.
MOVE_TO = "gpufleet.io/move-to"
# On a node: which command closed it, and until when its drain waits for work that ends by itself.
CORDONED_BY = "gpufleet.io/cordoned-by"
DRAIN_DEADLINE = "gpufleet.io/drain-deadline"
# On a node that is drained: until when work may start there that ends before others do that are waited for.
BACKFILL_UNTIL = "gpufleet.io/backfill-until"

# By which people and we keep Cluster Autoscaler and Karpenter from taking a pod's node away.
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
# By which Cluster Autoscaler knows that a pod uses what was provided for a ProvisioningRequest of a class.
CONSUMES_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
CONSUMES_REQUEST_BEFORE = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
REQUEST_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
# On ProvisioningRequests of ours: for which gang, and which attempt for it.
PROVISIONED_GANG = "gpufleet.io/provisioned-gang"
PROVISIONING_ATTEMPT = "gpufleet.io/provisioning-attempt"

# Gangs.
GANG = "gpufleet.io/gang"
GANG_MIN_MEMBERS = "gpufleet.io/gang-min-members"
GANG_ROLE = "gpufleet.io/gang-role"
# "true": all of the gang on one of the models that its pods list in order.
GANG_ONE_MODEL = "gpufleet.io/gang-one-model"
# "true" lets a bare member be deleted when its gang cannot be completed in time.
DELETE_INCOMPLETE = "gpufleet.io/delete-incomplete-gang"
# How long a gang that ran may be short of members: "5m", or "-1" for any time.
GANG_STALE_AFTER = "gpufleet.io/gang-stale-after"
KAI_STALE_AFTER = "kai.scheduler/staleness-grace-period"
PLUGINS_POD_GROUP = "scheduling.x-k8s.io/pod-group"
# Written by scheduler-plugins before 0.24 and still found.
PLUGINS_POD_GROUP_OLD = "pod-group.scheduling.sigs.k8s.io"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_MINIMUM = "scheduling.volcano.sh/group-min-member"
VOLCANO_TASK = "volcano.sh/task-spec"
KAI_GROUP = "pod-group-name"
KAI_SUBGROUP = "kai.scheduler/subgroup-name"
KAI_MINIMUM = "kai.scheduler/batch-min-member"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
# On a Job, or in its template: with how many of its pods it may start.
KUEUE_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"

# Where the pods of a gang shall be, by node labels that name the levels of the topology.
TOPOLOGY_BALANCED = "gpufleet.io/topology-balanced"
KUEUE_TOPOLOGY_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_TOPOLOGY_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_TOPOLOGY_SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_TOPOLOGY_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
KUEUE_TOPOLOGY_SLICES = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KAI_TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
KAI_TOPOLOGY_SEGMENT = "kai.scheduler/segment-topology-required-placement"
KAI_TOPOLOGY_SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
KAI_TOPOLOGY_SEGMENT_SIZE = "kai.scheduler/segment-size"
TOPOLOGY_KEYS = (
    TOPOLOGY_BALANCED,
    KUEUE_TOPOLOGY_REQUIRED,
    KUEUE_TOPOLOGY_PREFERRED,
    KUEUE_TOPOLOGY_SLICE,
    KUEUE_TOPOLOGY_SLICE_SIZE,
    KUEUE_TOPOLOGY_SLICES,
    KAI_TOPOLOGY_REQUIRED,
    KAI_TOPOLOGY_PREFERRED,
    KAI_TOPOLOGY_SEGMENT,
    KAI_TOPOLOGY_SEGMENT_PREFERRED,
    KAI_TOPOLOGY_SEGMENT_SIZE,
)

# Labels that controllers put on the pods they make.
JOB_SET = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
LEADER_WORKER_SET_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LEADER_WORKER_SET_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
# On the LeaderWorkerSet: its workers come only when their leader has a node.
LEADER_WORKER_SET_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
TRAINING_JOB = "training.kubeflow.org/job-name"
TRAINING_ROLE = "training.kubeflow.org/replica-type"
MPI_ROLE = "training.kubeflow.org/job-role"
RAY_CLUSTER = "ray.io/cluster"
RAY_GROUP = "ray.io/group"

# What storage controllers write on claims.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

# All annotations of pods that our code reads; the others are not kept in memory.
POD_ANNOTATIONS = frozenset(
    {
        GRANT,
        MOVED,
        GPU_FRACTION,
        GPU_MEMORY,
        GPU_MODELS,
        GPUS_WITHIN,
        DATA,
        DATA_SIZE,
        DATA_POLICY,
        KSERVE_SOURCE,
        VOLCANO_NUMA_POLICY,
        KAI_FRACTION,
        KAI_MEMORY,
        KAI_DEVICES,
        KAI_CONTAINER,
        HAMI_USE_MODEL,
        HAMI_AVOID_MODEL,
        CUDA_VERSION,
        RUN_TIME,
        *QUEUE_KEYS,
        RUN_TIME_MAX,
        INTERRUPTIBLE,
        CHECKPOINTED_AT,
        CHECKPOINT_ON_REQUEST,
        CHECKPOINT_REQUESTED,
        MOVE_TO,
        SAFE_TO_EVICT,
        DO_NOT_DISRUPT,
        CONSUMES_REQUEST,
        CONSUMES_REQUEST_BEFORE,
        GANG,
        GANG_MIN_MEMBERS,
        GANG_ROLE,
        GANG_ONE_MODEL,
        DELETE_INCOMPLETE,
        GANG_STALE_AFTER,
        KAI_STALE_AFTER,
        VOLCANO_GROUP,
        VOLCANO_GROUP_MINIMUM,
        VOLCANO_TASK,
        KAI_GROUP,
        KAI_MINIMUM,
        KUEUE_GROUP,
        KUEUE_GROUP_TOTAL,
        KUEUE_MIN_PARALLELISM,
        *TOPOLOGY_KEYS,
    }
)
"""All annotations of pods that our code reads; the others are not kept in memory."""
