"""What guides teach, line by line: which test holds it, and what comes of it for somebody who pastes it.

Lint, admission and the cluster are those of `entries` and `variants`; a test elsewhere has its file named.
`test_practice` fails where a test that is named here is no longer there.
"""

from dataclasses import dataclass

SIMULATED, REAL, TABLE = "guides/test_simulated_nodes.py", "guides/test_real_node.py", "guides/test_table.py"
QUERIES = "guides/test_queries.py"
RUNS = f"{SIMULATED}::test_what_guides_teach_runs"
VARIANT_RUNS = f"{SIMULATED}::test_a_variant_that_runs_runs"
WAITS = f"{SIMULATED}::test_what_waits_is_told_its_cause_and_the_way_out"
VARIANT_WAITS = f"{SIMULATED}::test_a_variant_that_waits_is_told_its_cause_and_the_way_out"
REFUSED = f"{SIMULATED}::test_what_is_refused_is_refused_with_the_reason"
VARIANT_REFUSED = f"{SIMULATED}::test_a_variant_that_is_refused_is_refused_with_the_reason"
LINTED = f"{TABLE}::test_lint_finds_what_the_table_says"
DOCTOR = f"{SIMULATED}::test_the_doctor_names_each_pitfall_of_these_manifests"


@dataclass(frozen=True)
class Line:
    """A line of the guides, what its reader gets, and the tests that hold it: FILE::FUNCTION below tests."""

    teaches: str
    reader_gets: str
    held_by: tuple[str, ...]


LINES = (
    Line(
        "one GPU in limits, requests absent or equal",
        "the pod runs with that GPU alone",
        (RUNS, f"{REAL}::test_a_first_pod_sees_its_one_gpu_whatever_its_variables_say"),
    ),
    Line(
        "GPUs in requests alone, in parts, negative, more than a node has",
        "the server refuses it, or explain names the most that a node has",
        (VARIANT_REFUSED, VARIANT_WAITS),
    ),
    Line(
        "nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915 and xe",
        "each runs on its vendor's nodes",
        (RUNS, VARIANT_WAITS, f"{TABLE}::test_lint_knows_every_resource_of_guides"),
    ),
    Line(
        "runtimeClassName nvidia, NVIDIA_VISIBLE_DEVICES=all",
        "the pod sees its own GPU; without a limit it is refused",
        (RUNS, REFUSED, f"{REAL}::test_a_first_pod_sees_its_one_gpu_whatever_its_variables_say"),
    ),
    Line(
        "taints of three dialects and more, tolerated with Equal and with Exists",
        "the pod runs there",
        (
            f"{SIMULATED}::test_each_taint_of_guides_is_tolerated_in_both_ways",
            f"{REAL}::test_a_toleration_of_each_dialect_leads_to_the_tainted_node",
        ),
    ),
    Line(
        "a toleration that is missing, or of another key, value or effect",
        "explain and the condition name the taint, and the toleration to add",
        (
            WAITS,
            VARIANT_WAITS,
            f"{REAL}::test_a_pod_without_the_toleration_waits_and_is_told_which",
            f"{SIMULATED}::test_the_condition_names_the_taint_of_the_node_that_the_selector_chose",
        ),
    ),
    Line(
        "labels of one's own and the product label, by selector and by affinity",
        "the pod runs there; of a label that matches nothing explain names the values that there are",
        (RUNS, WAITS, VARIANT_RUNS, VARIANT_WAITS, f"{REAL}::test_labels_of_ones_own_select_the_node"),
    ),
    Line(
        "the device plugin's ConfigMap of time-slicing, under the names of guides",
        "two GPUs advertise eight, and four workers share one",
        (
            f"{REAL}::test_two_gpus_advertise_eight_by_the_config_map_and_four_workers_share_one",
            "simulation/test_simulated_sharing.py::test_time_slices_are_offered_and_end_with_the_config",
            "doctor/test_unread_sharing_configs.py::test_one_that_agents_follow_is_read",
        ),
    ),
    Line(
        "a ConfigMap of sharing in another place",
        "the doctor says that nobody reads it, and where it would be read",
        ("doctor/test_unread_sharing_configs.py::test_one_of_a_name_that_no_agent_follows_is_told",),
    ),
    Line(
        "MIG resources from 1g.10gb to 7g.80gb",
        "each runs on a node that is cut so; else explain names the nearest instance",
        (
            RUNS,
            WAITS,
            VARIANT_RUNS,
            VARIANT_WAITS,
            f"{REAL}::test_a_mig_pod_gets_an_instance_and_one_that_is_not_cut_waits",
        ),
    ),
    Line(
        "a MIG layout by the label nvidia.com/mig.config",
        "the doctor says that no MIG manager makes it",
        (f"{SIMULATED}::test_the_doctor_says_that_nobody_makes_the_layout_of_a_label",),
    ),
    Line(
        "ResourceQuota of requests.nvidia.com/gpu",
        "it counts",
        (f"{SIMULATED}::test_a_quota_of_requests_counts",),
    ),
    Line(
        "ResourceQuota of limits.nvidia.com/gpu",
        "lint, explain and the doctor say that it counts nothing",
        (f"{SIMULATED}::test_a_quota_of_limits_counts_nothing_and_explain_says_so", LINTED),
    ),
    Line(
        "LimitRange with a default, and with a maximum alone",
        "it bounds; a maximum alone gives GPUs to every container, and the doctor finds it",
        (
            f"{SIMULATED}::test_a_limit_range_with_a_default_of_0_bounds_gpus_and_gives_none",
            f"{SIMULATED}::test_a_maximum_alone_gives_gpus_to_whoever_asks_for_none_and_is_found",
        ),
    ),
    Line(
        "PriorityClass inference-critical",
        "less urgent work makes room for it",
        (f"{SIMULATED}::test_a_service_of_a_higher_class_gets_the_place_of_what_is_less_urgent",),
    ),
    Line(
        "Deployments, Jobs, CronJobs, DaemonSets, StatefulSets",
        "their pods run, each with its own GPU",
        (RUNS, VARIANT_RUNS, f"{REAL}::test_a_deployment_has_a_gpu_for_each_replica"),
    ),
    Line(
        "gangs by Kueue and by Volcano",
        "Kueue's groups start together; explain says whose Volcano's pods are",
        (RUNS, WAITS),
    ),
    Line(
        "objects of systems that are not installed",
        "kubectl says that there is no such kind",
        (VARIANT_REFUSED,),
    ),
    Line("Topology Manager with single-numa-node", "the pod says so itself and runs", (RUNS,)),
    Line(
        "HPA v2 on dcgm_gpu_utilization",
        "the controller and the doctor say that no API serves the metric; on the list of what is not there",
        (f"{SIMULATED}::test_an_autoscaler_on_gpu_use_says_that_nothing_serves_its_metric", LINTED),
    ),
    Line(
        "DCGM_FI_DEV_... and the names of dcgm-exporter's first releases, in PromQL",
        "a real Prometheus answers each query with the agent's readings",
        (
            f"{QUERIES}::test_each_query_of_the_file_answers_with_the_readings",
            f"{QUERIES}::test_queries_of_other_spellings_answer_too",
        ),
    ),
    Line(
        "alert GPUUnderutilised",
        "it finds the pod that hardly uses its GPU, and no free card",
        (
            f"{QUERIES}::test_the_alert_of_guides_finds_the_pod_that_hardly_uses_its_gpu_and_no_free_card",
            f"{TABLE}::test_promtool_takes_the_alert_and_each_query",
        ),
    ),
    Line(
        "no privileged pods, no hostPath of /dev/nvidia*",
        "Pod Security refuses them, and lint says why",
        (REFUSED, LINTED),
    ),
    Line(
        "drain with --ignore-daemonsets --delete-emptydir-data, budgets",
        "the node empties, and budgets hold",
        (f"{SIMULATED}::test_a_drain_waits_for_the_budget_and_then_empties_the_node",),
    ),
    Line(
        '{{ include "standards.gpu.tolerations" . }}',
        "the application runs; lint asks for the rendered chart",
        (
            f"{SIMULATED}::test_an_application_of_the_standards_chart_runs",
            f"{TABLE}::test_a_template_of_the_standards_chart_is_read_once_it_is_rendered",
        ),
    ),
    Line(
        "the usual pitfalls",
        "lint, the doctor or explain names each",
        (f"{TABLE}::test_each_pitfall_names_answers_that_there_are", DOCTOR),
    ),
    Line(
        "MIG on demand, dashboards, metrics for autoscalers",
        "the page of what is not there yet, until it comes",
        (
            f"{SIMULATED}::test_mig_on_demand_is_on_the_list_of_what_is_not_there",
            f"{TABLE}::test_dashboards_are_on_the_list_of_what_is_not_there_until_one_ships",
        ),
    ),
)
"""In the order of a guide: pods, nodes, sharing, teams, scaling, watching, security, upgrades."""
