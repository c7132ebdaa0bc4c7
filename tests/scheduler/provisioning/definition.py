"""The definition of ProvisioningRequest in our words: what its own one checks of what is written here."""

from gpufleet.localkube.access.api import Object

NAME = {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
CONDITION: Object = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "minLength": 1},
        "message": {"type": "string"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer"},
    },
}
POD_SET: Object = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "podTemplateRef": {"type": "object", "required": ["name"], "properties": {"name": NAME}},
    },
}
SPEC: Object = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "the spec cannot be changed"}],
    "properties": {
        "podSets": {"type": "array", "minItems": 1, "maxItems": 32, "items": POD_SET},
        "provisioningClassName": NAME,
        "parameters": {
            "type": "object",
            "maxProperties": 100,
            "additionalProperties": {"type": "string", "maxLength": 255},
        },
    },
}
STATUS: Object = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": CONDITION,
        }
    },
}


def provisioning_requests() -> Object:
    """The CustomResourceDefinition."""
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}, "required": ["spec"]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "ProvisioningRequest", "plural": "provisioningrequests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "provisioningrequests.autoscaling.x-k8s.io",
            # The API server asks for the word where a group belongs to Kubernetes.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's own definition"},
        },
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }
