"""Controllers of pods that belong together, as far as it takes to count those pods."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure


class JobSpec(Structure, frozen=True):
    """How many pods a Job runs at once."""

    parallelism: int | None = None
    completions: int | None = None

    @property
    def at_once(self) -> int:
        """The pods that run at the same time; no more than are still to complete."""
        parallelism = 1 if self.parallelism is None else self.parallelism
        return parallelism if self.completions is None else min(parallelism, self.completions)


class Job(Structure, frozen=True):
    """A Job of batch."""

    metadata: Metadata
    spec: JobSpec = JobSpec()


class StatefulSetSpec(Structure, frozen=True):
    """How many pods a StatefulSet has, and whether they come together or one after the other."""

    replicas: int | None = None
    pod_management_policy: str = "OrderedReady"


class StatefulSet(Structure, frozen=True):
    """A StatefulSet of apps."""

    metadata: Metadata
    spec: StatefulSetSpec = StatefulSetSpec()


class JobTemplate(Structure, frozen=True):
    """The Job that is made so and so often."""

    spec: JobSpec = JobSpec()


class JobDependency(Structure, frozen=True):
    """Another of the Jobs, which must have come far enough before."""

    name: str


class ReplicatedJob(Structure, frozen=True):
    """Equal Jobs of a JobSet."""

    name: str
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[JobDependency, ...] = ()


class StartupPolicy(Structure, frozen=True):
    """Whether the Jobs of a JobSet come together or in their order."""

    startup_policy_order: str = "AnyOrder"


class JobSetSpec(Structure, frozen=True):
    """The Jobs of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy | None = None


class JobSet(Structure, frozen=True):
    """A JobSet of jobset.x-k8s.io."""

    metadata: Metadata
    spec: JobSetSpec = JobSetSpec()


class LeaderWorkerTemplate(Structure, frozen=True):
    """How large a group of leader and workers is."""

    size: int = 1


class LeaderWorkerSetSpec(Structure, frozen=True):
    """Groups of a leader and its workers, and whether the workers wait for the leader."""

    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = "LeaderCreated"


class LeaderWorkerSet(Structure, frozen=True):
    """A LeaderWorkerSet of leaderworkerset.x-k8s.io."""

    metadata: Metadata
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class ReplicaSpec(Structure, frozen=True):
    """Equal pods of one role."""

    replicas: int | None = None


class SchedulingPolicy(Structure, frozen=True):
    """What a training job says of its gang."""

    min_available: int | None = None
    queue: str = ""
    priority_class: str = ""


class RunPolicy(Structure, frozen=True):
    """How a training job is run."""

    scheduling_policy: SchedulingPolicy | None = None


class ElasticPolicy(Structure, frozen=True):
    """The least number of workers with which an elastic training can run."""

    min_replicas: int | None = None


Replicas = dict[str, ReplicaSpec]


class TrainingJobSpec(Structure, frozen=True):
    """Roles and their replicas; each kind of job has a field of its own name for them."""

    run_policy: RunPolicy = RunPolicy()
    elastic_policy: ElasticPolicy | None = None
    launcher_creation_policy: str = "AtStartup"
    pytorch_replica_specs: Replicas = msgspec.field(default_factory=dict)
    tf_replica_specs: Replicas = msgspec.field(default_factory=dict)
    mpi_replica_specs: Replicas = msgspec.field(default_factory=dict)
    xgb_replica_specs: Replicas = msgspec.field(default_factory=dict)
    paddle_replica_specs: Replicas = msgspec.field(default_factory=dict)
    jax_replica_specs: Replicas = msgspec.field(default_factory=dict)

    @property
    def replicas(self) -> Replicas:
        """The roles of the job, by name as written ("Master", "Worker")."""
        return (
            self.pytorch_replica_specs
            or self.tf_replica_specs
            or self.mpi_replica_specs
            or self.xgb_replica_specs
            or self.paddle_replica_specs
            or self.jax_replica_specs
        )


class TrainingJob(Structure, frozen=True):
    """A PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob or JAXJob of kubeflow.org."""

    metadata: Metadata
    spec: TrainingJobSpec = TrainingJobSpec()


class WorkerGroup(Structure, frozen=True):
    """Equal workers of a RayCluster; one replica is ``num_of_hosts`` pods."""

    group_name: str
    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False


class RayClusterSpec(Structure, frozen=True):
    """The workers of a RayCluster, and whether their number follows the load."""

    worker_group_specs: tuple[WorkerGroup, ...] = ()
    enable_in_tree_autoscaling: bool = False


class RayCluster(Structure, frozen=True):
    """A RayCluster of ray.io."""

    metadata: Metadata
    spec: RayClusterSpec = RayClusterSpec()
