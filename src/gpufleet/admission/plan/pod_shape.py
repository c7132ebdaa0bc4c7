"""The form that completion and the policy on images expect of a pod, for objects of files."""

from typing import Any

import msgspec

from gpufleet.model.model_errors import InputError


class _Resources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str | None = None
    image: str | None = None
    resources: _Resources | None = None
    volume_mounts: list[dict[str, Any]] | None = None


class _ImageVolume(msgspec.Struct):
    reference: str = ""


class _Volume(msgspec.Struct):
    name: str | None = None
    image: _ImageVolume | None = None


class _Toleration(msgspec.Struct):
    key: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    tolerations: list[_Toleration] | None = None
    node_selector: dict[str, str] | None = None
    scheduler_name: str = ""
    runtime_class_name: str | None = None


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


def check_pod(pod: dict[str, Any], where: str) -> None:
    """Raises InputError, naming the field, for a pod that no API server would take."""
    try:
        msgspec.convert(pod, _Pod)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where, expected="a pod as the API server takes it") from None
