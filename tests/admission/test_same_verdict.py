"""On a real API server: the policies find what lint finds, over all pods that lint is tried on."""

from gpufleet.admission.cel.rules import FINDINGS
from tests.admission.judging_server import PATHS, JudgingServer, a_jax_job, by_lint
from tests.admission.lint_corpus import objects, varied

LEAST_OBJECTS = 150
"""Fewer would mean that the corpus is not found any more."""


def test_every_pod_of_the_corpus_gets_the_same_verdict(server: JudgingServer) -> None:
    differences, seen = [], 0
    found: set[str] = set()
    for name, _, templates in objects():
        job = a_jax_job(templates)
        said, expected = server.create(job, "warn"), by_lint(job)
        assert said.status == 201, (name, said.body)
        assert said.error == "", name
        seen, found = seen + 1, found | expected
        if said.rules != expected:
            differences.append((name, expected, said.rules))
    assert differences == []
    assert seen >= LEAST_OBJECTS
    assert found == set(FINDINGS)


def test_pods_put_together_at_random_get_the_same_verdict(server: JudgingServer) -> None:
    differences = []
    for templates in varied():
        job = a_jax_job(templates)
        said, expected = server.create(job, "warn"), by_lint(job)
        assert (said.status, said.error) == (201, ""), job
        if said.rules != expected:
            differences.append((templates, expected, said.rules))
    assert differences[:1] == []


def test_objects_of_the_server_itself_get_the_same_verdict_where_it_takes_them(server: JudgingServer) -> None:
    differences, taken = [], 0
    for name, one, _ in objects():
        if one["kind"] not in PATHS or "volcano" in one["apiVersion"]:
            continue
        said, expected = server.create(one, "warn"), by_lint(one)
        # What the server refuses by its own rules is judged by nobody.
        if said.status == 201:
            taken += 1
            if said.rules != expected or said.error:
                differences.append((name, expected, said.rules, said.error))
    assert differences == []
    assert taken >= LEAST_OBJECTS // 3
