"""Alerts about the webhook of admission."""

from tests.alerts.promtool import Case, Scraped, Trial, Values, rising, steady

DAY_S = 86_400
ITS = {"instance": "a:9400"}
DENY = {"name": "deny.admission.gpufleet.io"}
CERTIFICATE = "gpufleet_admission_certificate_expiry_timestamp_seconds"


def passed(values: Values, name: str = "deny.admission.gpufleet.io") -> Scraped:
    """Requests that the API server let pass without an answer."""
    return {f'apiserver_admission_webhook_fail_open_count{{name="{name}",type="validating"}}': values}


def reviews(slow: float, each_minute: float = 100) -> Scraped:
    """Reviews of which this share takes between 0.1 s and 0.5 s from minute 10 on, and before within 5 ms."""
    every = rising(0, each_minute, 60)
    quick = rising(0, each_minute, 11) + [
        each_minute * 10 + each_minute * (1 - slow) * minute for minute in range(1, 50)
    ]
    series = "gpufleet_admission_review_seconds"
    return {
        f"{series}_count{{}}": every,
        f'{series}_bucket{{le="0.005"}}': quick,
        f'{series}_bucket{{le="0.1"}}': quick,
        f'{series}_bucket{{le="0.5"}}': every,
        f'{series}_bucket{{le="+Inf"}}': every,
    }


TRIALS = [
    Trial(
        "AdmissionWebhookDown",
        "warning",
        {CERTIFICATE: steady(40 * DAY_S, 60)},
        {CERTIFICATE: steady(40 * DAY_S, 10) + steady(None, 50)},
        {},
        "No replica of the webhook of admission is scraped",
        14,
        15,
        5,
    ),
    Trial(
        "AdmissionUnjudged",
        "warning",
        passed(steady(3, 60)),
        passed(steady(None, 10) + steady(1, 50)),
        DENY,
        "The API server goes on without deny.admission.gpufleet.io",
        14,
        15,
        14,
    ),
    Trial(
        "AdmissionSlow",
        "warning",
        reviews(0.001),
        reviews(0.5),
        {},
        "One review of admission in a hundred takes 492ms and more",
        19,
        40,
        30,
    ),
    Trial(
        "AdmissionCertificateEnds",
        "warning",
        {CERTIFICATE: steady(40 * DAY_S, 60)},
        {CERTIFICATE: steady(40 * DAY_S, 10) + steady(5 * DAY_S, 50)},
        ITS,
        "The certificate of a:9400 ends in 4d 23h 45m 0s",
        14,
        15,
    ),
]
SPECIAL = [
    Case(
        "one of two replicas goes on",
        "AdmissionWebhookDown",
        {
            f'{CERTIFICATE}{{instance="a:9445"}}': steady(40 * DAY_S, 10) + steady(None, 50),
            f'{CERTIFICATE}{{instance="b:9445"}}': steady(40 * DAY_S, 60),
        },
        40,
    ),
    Case("a webhook that was never there", "AdmissionWebhookDown", {}, 40),
    Case(
        "another project's webhook is passed over",
        "AdmissionUnjudged",
        passed(rising(0, 1, 60), "validate.kyverno.svc"),
        40,
    ),
    Case(
        "requests that go on to pass",
        "AdmissionUnjudged",
        passed(steady(3, 10) + rising(4, 1, 50)),
        40,
        ({"severity": "warning", **DENY},),
    ),
    Case(
        "one request, twenty minutes ago", "AdmissionUnjudged", passed(steady(None, 10) + steady(1, 50)), 30
    ),
    Case("one slow review of nine", "AdmissionSlow", reviews(0.5, 0.9), 40),
]
