"""What is read of data from pods and claims that have no annotation of ours, and what goes before it."""

from typing import Any

from gpufleet.kube.codec.data_read import data_of_claim
from gpufleet.kube.codec.pod import PodVolumes, read_pod
from gpufleet.kube.objects.storage import PersistentVolumeClaim
from gpufleet.model.data import NO_DATA, DataAsk, DataNeeds, DataPolicy
from tests.kube.wire_objects import a_pod, decoded

SERVES = {"name": "main", "command": ["vllm", "serve", "org/llama", "--revision", "r1"]}
SAID = {"gpufleet.io/data": "model/org/other", "gpufleet.io/data-policy": "Require"}
LLAMA, OTHER = DataAsk("model/org/llama", "r1"), DataAsk("model/org/other")
IMAGENET = DataAsk("dataset/imagenet")


def needs(*containers: dict[str, Any], volumes: tuple[DataAsk, ...] = (), **more: Any) -> DataNeeds:
    """What the engine hears of such a pod."""
    return read_pod(a_pod(*containers, **more), volumes=PodVolumes(data=volumes)).shape.relations.data


def claim(*, labels: tuple[str, ...] = (), **annotations: str) -> PersistentVolumeClaim:
    """The claim default/imagenet."""
    metadata = {
        "name": "imagenet",
        "namespace": "default",
        "labels": dict.fromkeys(labels, "true"),
        "annotations": {f"gpufleet.io/{name}": text for name, text in annotations.items()},
    }
    made: PersistentVolumeClaim = decoded({"metadata": metadata}, PersistentVolumeClaim)
    return made


def test_a_servers_model_is_preferred_and_what_the_pod_says_goes_before_it() -> None:
    assert needs(SERVES) == DataNeeds((LLAMA,), DataPolicy.PREFER)
    assert needs(SERVES, annotations=SAID) == DataNeeds((OTHER,), DataPolicy.REQUIRE)
    policy_alone = {"gpufleet.io/data-policy": "Require"}
    assert needs(SERVES, annotations=policy_alone).policy is DataPolicy.PREFER
    assert needs({"name": "main", "command": ["sleep"]}) == NO_DATA


def test_kserves_source_is_read_from_its_init_container_and_its_annotation() -> None:
    copies = {"name": "storage-initializer", "args": ["hf://org/llama:r1", "/mnt/models"]}
    assert needs(initContainers=[copies]).asks == (LLAMA,)
    source = {"internal.serving.kserve.io/storage-initializer-sourceuri": "hf://org/llama:r1"}
    assert needs(annotations=source).asks == (LLAMA,)
    elsewhere = {"internal.serving.kserve.io/storage-initializer-sourceuri": "s3://bucket/llama"}
    assert needs(annotations=elsewhere) == NO_DATA


def test_datasets_of_fluid_are_named_by_a_label_of_the_pod_or_of_the_claim() -> None:
    assert needs(labels={"fluid.io/dataset.imagenet.sched": "required"}).asks == (IMAGENET,)
    assert data_of_claim(claim(labels=("fluid.io/s-default-imagenet",))) == (IMAGENET,)
    assert data_of_claim(claim(labels=("fluid.io/s-other-imagenet",))) == ()


def test_a_claim_says_what_lies_in_it_for_every_pod_that_mounts_it() -> None:
    assert data_of_claim(claim(data="model/org/llama@r1")) == (LLAMA,)
    assert data_of_claim(claim(data="llama")) == ()
    assert needs(SERVES, volumes=(LLAMA, IMAGENET)).asks == (LLAMA, IMAGENET)
    assert needs(annotations=SAID, volumes=(IMAGENET,)).asks == (OTHER,)


def test_nothing_else_of_a_command_line_is_kept() -> None:
    secret = {"name": "HF_TOKEN", "value": "hf_x"}
    line = ["--model", "org/llama", "--revision=r1", "--api-key", "hf_y"]
    served = {"name": "main", "image": "vllm/vllm-openai", "args": line, "env": [secret]}
    (container,) = a_pod(served, {"name": "side", "command": ["sleep", "1d"]}).spec.containers[:1]
    assert (container.command, container.args, container.env) == (
        ("vllm", "serve", "org/llama", "--revision", "r1"),
        (),
        (),
    )
    again = a_pod({"name": "main", "command": list(container.command)}).spec.containers
    assert again == (container,)
