"""A stand-in for the definition of NodeFeature, which Node Feature Discovery brings to a cluster.

It has the fields that labellers write, and what the real one insists on: ``features``, where it is there, has
all three of its parts.
"""

from typing import Any

NAME = "nodefeatures.nfd.k8s-sigs.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures"

NODE_FEATURES: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": NAME,
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "nfd.k8s-sigs.io",
        "scope": "Namespaced",
        "names": {"kind": "NodeFeature", "plural": "nodefeatures", "singular": "nodefeature"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "features": {
                                        "type": "object",
                                        "required": ["attributes", "flags", "instances"],
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
