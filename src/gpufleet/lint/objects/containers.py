"""A container of a pod, as rules read it."""

import re
from dataclasses import dataclass

from gpufleet.kube.meanings.gpu_resources import is_device, is_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.images import ImageReference, read_image
from gpufleet.lint.source.fields import Field
from gpufleet.model.worked_out_once import worked_out_once

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


@dataclass(frozen=True)
class Variable:
    """An entry of ``env``."""

    field: Field
    name: str

    @property
    def value(self) -> str | None:
        """The literal value; None if it comes from elsewhere."""
        if self.field.at("valueFrom").exists:
            return None
        return self.field.text_at("value") or ""


@dataclass(frozen=True)
class Mount:
    """An entry of ``volumeMounts``."""

    field: Field
    volume: str
    path: str


@dataclass(frozen=True)
class Container:
    """A container; ``is_init`` for those that end before the others start."""

    field: Field
    is_init: bool = False

    @property
    def name(self) -> str:
        """The container's name; of a container without one, its place."""
        return self.field.text_at("name") or self.field.path

    @worked_out_once
    def image(self) -> ImageReference | None:
        """The image, taken apart."""
        text = self.field.text_at("image")
        return read_image(text) if text else None

    @worked_out_once
    def limits(self) -> dict[str, Field]:
        """Limits by name of the resource."""
        return self.field.at("resources", "limits").by_name()

    @worked_out_once
    def requests(self) -> dict[str, Field]:
        """Requests by name of the resource."""
        return self.field.at("resources", "requests").by_name()

    @worked_out_once
    def asked_names(self) -> tuple[str, ...]:
        """The resources that stand in its limits or requests, whatever their amounts."""
        limits = self.field.names_at("resources", "limits")
        return tuple(dict.fromkeys((*limits, *self.field.names_at("resources", "requests"))))

    @worked_out_once
    def gpu_names(self) -> tuple[str, ...]:
        """The GPU resources it asks for, in limits or requests, with an amount other than zero."""
        return tuple(name for name in self.asked_names if is_gpu(name) and self._asked(name) != 0)

    @worked_out_once
    def device_count(self) -> int:
        """How many GPUs, instances and shares it asks for together."""
        return sum(self._asked(name) or 0 for name in self.gpu_names if is_device(name))

    def _asked(self, name: str) -> int | None:
        limit = self.field.text_at("resources", "limits", name)
        text = self.field.text_at("resources", "requests", name) if limit is None else limit
        found = amount(text)
        return None if found is None else found.value()

    @worked_out_once
    def has_claims(self) -> bool:
        """Whether it is given devices by resource claims (DRA)."""
        return bool(self.field.items_at("resources", "claims"))

    @property
    def has_gpu(self) -> bool:
        """Whether it is given a GPU by its resources."""
        return bool(self.gpu_names) or self.has_claims

    @worked_out_once
    def env(self) -> tuple[Variable, ...]:
        """The container's variables."""
        entries = ((one, one.text_at("name")) for one in self.field.items_at("env"))
        return tuple(Variable(one, name) for one, name in entries if name)

    def variable(self, name: str) -> Variable | None:
        """The variable of this name; the last where there are several, as that one counts."""
        return next((one for one in reversed(self.env) if one.name == name), None)

    @worked_out_once
    def mounts(self) -> tuple[Mount, ...]:
        """What is mounted where."""
        return tuple(
            Mount(one, one.text_at("name") or "", (one.text_at("mountPath") or "").rstrip("/") or "/")
            for one in self.field.items_at("volumeMounts")
        )

    @worked_out_once
    def words(self) -> tuple[str, ...]:
        """Command and arguments, as far as they are written here.

        Kubernetes puts variables of the container in for ``$(NAME)``, and takes ``$$`` for one dollar.
        """
        fields = (*self.field.items_at("command"), *self.field.items_at("args"))
        return tuple(self._expanded(word) for field in fields if (word := field.text) is not None)

    def _expanded(self, word: str) -> str:
        def value(reference: re.Match[str]) -> str:
            if reference[0] == "$$":
                return "$"
            variable = self.variable(reference[1])
            known = None if variable is None else variable.value
            return reference[0] if known is None else known

        return _REFERENCE.sub(value, word)

    @worked_out_once
    def memory_limit_bytes(self) -> int | None:
        """The limit of memory."""
        field = self.limits.get("memory")
        found = amount(field.text) if field is not None else None
        return None if found is None else found.value()
