"""A request of the API server to its answer: judged, or completed, by the path that it came to.

``/judge/deny``, ``/judge/warn`` and ``/judge/audit`` are asked by webhooks for namespaces of these labels, so
the server itself knows how a namespace is treated. ``/images/deny`` and so on are the same for the label of
the policy on images, and judge kinds whose images no policy reads. ``/complete`` is for servers without
policies that complete. A trial (dry run) is answered as any other request, and no Event comes of it. What
cannot be answered ends with an error of HTTP, and the API server lets the object pass.
"""

import datetime as dt
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from gpufleet.admission.cel.pods import judged_kinds
from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.admission.images import ImagePolicy, image_findings, images_of, policy_of
from gpufleet.admission.policies import Action
from gpufleet.admission.treatment import Judge, judged_by
from gpufleet.admission.verdicts import manifest_of, verdicts
from gpufleet.admission.webhook.owner_events import OwnerEvents
from gpufleet.admission.webhook.record import AdmissionRecord
from gpufleet.admission.webhook.reviews import AdmissionRequest, allowed, patched, read_review, refused
from gpufleet.completion.additions import Completion
from gpufleet.completion.completing import completing_patch
from gpufleet.daemon.http_server import Page, Request
from gpufleet.lint.rule import Severity
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
JSON = "application/json"
JUDGE, IMAGES, COMPLETE = "/judge/", "/images/", "/complete"
PATHS = tuple(
    f"{part}{one.value}" for part in (JUDGE, IMAGES) for one in (Action.AUDIT, Action.WARN, Action.DENY)
)
WARNINGS_MAX = 10
"""The API server drops warnings beyond 4 KiB."""

RULE_DOMAIN, IMAGE_DOMAIN = "lint", "images"
"""The keys of notes in the audit log."""

POD = ("", "Pod")


class Answering:
    """Answers requests for ``daemon.http_server``.

    ``annotations`` gives those of a namespace, ``completion`` what pods are given now. ``images`` is the
    policy of namespaces that have none of their own.
    """

    def __init__(
        self,
        record: AdmissionRecord,
        annotations: Callable[[str], Mapping[str, str]],
        now: Callable[[], dt.datetime],
        completion: Callable[[], Completion],
        images: ImagePolicy,
        events: OwnerEvents,
    ) -> None:
        self._record = record
        self._annotations = annotations
        self._now = now
        self._completion = completion
        self._images = images
        self._events = events
        policies = judged_by(Judge.POLICY)
        # Kinds that no policy judges are judged here by all rules about one object.
        self._all = tuple(sorted((*judged_by(Judge.WEBHOOK), *policies), key=lambda rule: rule.id))
        self._of_policies = [rule.id for rule in policies]
        self._kinds = frozenset(judged_kinds())

    async def answer(self, request: Request) -> Page:
        """The answer; never raises for what the API server sends."""
        began_s = time.perf_counter()
        path = request.path
        if request.method != "POST" or (path not in PATHS and path != COMPLETE):
            there = f"there are {', '.join((*PATHS, COMPLETE))}, which take a review by POST\n"
            return Page((there.encode(),), status=HTTPStatus.NOT_FOUND)
        try:
            review = read_review(request.body)
            body = self._answered(path, review)
        except InputError as error:
            self._record.answered("unreadable", time.perf_counter() - began_s)
            LOG.warning("a review cannot be read", extra={"problem": str(error)})
            return Page((f"{error}\n".encode(),), status=HTTPStatus.BAD_REQUEST)
        except Exception:
            # One object of a form that was not thought of must not end the connection that others wait on.
            self._record.answered("failed", time.perf_counter() - began_s)
            LOG.exception("an object could not be judged, and passes")
            return Page((b"the object could not be judged\n",), status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._record.answered("answered", time.perf_counter() - began_s)
        return Page((body,), JSON)

    def _answered(self, path: str, review: AdmissionRequest) -> bytes:
        if path == COMPLETE:
            return self._completed(review)
        action = Action(path.rpartition("/")[2])
        return self._judged(review, action) if path.startswith(JUDGE) else self._judged_images(review, action)

    def _judged_images(self, review: AdmissionRequest, action: Action) -> bytes:
        if review.object is None or (review.kind.group, review.kind.kind) in self._kinds:
            return allowed(review.uid, [], {})
        # What an object had before goes on: only what comes new is judged.
        known = set(_images(review.old_object))
        policy = policy_of(self._annotations(review.namespace), self._images)
        new = [one for one in _images(review.object) if one not in known]
        words = [f"images policy: {one} {said}" for one in new for said in image_findings(one, policy)]
        for _ in words:
            self._record.found(IMAGE_DOMAIN, action.value)
        if action is Action.DENY and words:
            return refused(review.uid, "; ".join(words[:WARNINGS_MAX]))
        if action is Action.AUDIT:
            told = {IMAGE_DOMAIN: "; ".join(words[:WARNINGS_MAX])} if words else {}
            return allowed(review.uid, [], told)
        return allowed(review.uid, words[:WARNINGS_MAX], {})

    def _judged(self, review: AdmissionRequest, action: Action) -> bytes:
        if review.object is None:
            return allowed(review.uid, [], {})
        kind = (review.kind.group, review.kind.kind)
        by_policy = frozenset(self._of_policies if kind in self._kinds else ())
        annotations = self._annotations(review.namespace)
        everything = verdicts(
            manifest_of(review.object), self._all, self._now().date(), annotations, of_policies=FINDINGS
        )
        if kind == POD and not review.dry_run and action is not Action.AUDIT:
            self._events.tell(review.namespace, review.object, everything)
        found = [one for one in everything if one.rule.id not in by_policy]
        # What was there before goes on: an update is warned of.
        done = Action.WARN if action is Action.DENY and review.operation != "CREATE" else action
        for one in found:
            self._record.found(one.rule.id, done.of(one.severity).value)
        errors = [one.words for one in found if one.severity is Severity.ERROR]
        if done is Action.DENY and errors:
            return refused(review.uid, "; ".join(errors))
        words = [one.words for one in found[:WARNINGS_MAX]]
        if action is Action.AUDIT:
            return allowed(review.uid, [], {RULE_DOMAIN: "; ".join(words)} if words else {})
        return allowed(review.uid, words, {})

    def _completed(self, review: AdmissionRequest) -> bytes:
        if review.object is None or review.kind.kind != "Pod" or review.operation != "CREATE":
            return patched(review.uid, [])
        patch = completing_patch(review.object, self._completion())
        if patch:
            self._record.completed()
        return patched(review.uid, patch)


def _images(body: Mapping[str, Any] | None) -> list[str]:
    if body is None:
        return []
    return [image for template in manifest_of(body).templates for image in images_of(template)]
