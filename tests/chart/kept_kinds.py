"""The kinds of objects that the chart makes, and where the API server lists them."""

from tests.chart.served_metrics import API_SERVICES

ADMISSION, RIGHTS = "/apis/admissionregistration.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
KEPT_KINDS = {
    "APIService": API_SERVICES,
    "ConfigMap": "/api/v1/configmaps",
    "Secret": "/api/v1/secrets",
    "Service": "/api/v1/services",
    "ServiceAccount": "/api/v1/serviceaccounts",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Deployment": "/apis/apps/v1/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Role": f"{RIGHTS}/roles",
    "RoleBinding": f"{RIGHTS}/rolebindings",
    "ClusterRole": f"{RIGHTS}/clusterroles",
    "ClusterRoleBinding": f"{RIGHTS}/clusterrolebindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": f"{ADMISSION}/validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": f"{ADMISSION}/mutatingwebhookconfigurations",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
}
