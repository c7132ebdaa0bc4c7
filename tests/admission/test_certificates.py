"""The webhook's certificates: when each is made anew, and that none is shown before it can be trusted."""

import datetime as dt

from cryptography import x509

from gpufleet.admission.certificates import AUTHORITY_LIFE, SERVER_LIFE, Kept, next_kept

NAMES = ("gpufleet-admission.gpufleet-system.svc",)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def first() -> Kept:
    return next_kept(None, NAMES, b"", NOW)


def is_signed_by_one_of(kept: Kept, trusted: bytes) -> bool:
    server = x509.load_pem_x509_certificate(kept.server.certificate)
    for one in x509.load_pem_x509_certificates(trusted):
        if server.issuer == one.subject:
            # Raises where the signature is another's.
            server.verify_directly_issued_by(one)
            return True
    return False


def test_the_first_certificate_counts_from_an_hour_ago_and_is_of_the_only_authority() -> None:
    kept = first()
    server = x509.load_pem_x509_certificate(kept.server.certificate)
    assert server.not_valid_before_utc == NOW - HOUR
    assert server.not_valid_after_utc == NOW + SERVER_LIFE
    assert is_signed_by_one_of(kept, kept.trusted)


def test_what_is_not_due_stays() -> None:
    kept = first()
    assert next_kept(kept, NAMES, kept.trusted, NOW + SERVER_LIFE / 2) == kept


def test_a_certificate_near_its_end_is_made_anew_by_the_same_authority() -> None:
    kept = first()
    later = next_kept(kept, NAMES, kept.trusted, NOW + SERVER_LIFE * 0.8)
    assert later.server != kept.server
    assert (later.authority, later.trusted) == (kept.authority, kept.trusted)


def test_another_name_of_the_server_needs_another_certificate() -> None:
    kept = first()
    assert next_kept(kept, (*NAMES, "other.svc"), kept.trusted, NOW).server != kept.server


def test_a_new_authority_signs_only_when_the_api_server_knows_it() -> None:
    known = first()
    moment = NOW + AUTHORITY_LIFE * 0.7
    kept = next_kept(known, NAMES, known.trusted, NOW + SERVER_LIFE * 0.8)
    kept = next_kept(kept, NAMES, kept.trusted, moment - SERVER_LIFE / 2)
    joined = next_kept(kept, NAMES, kept.trusted, moment)
    assert joined.authority != kept.authority
    assert joined.server == kept.server
    assert is_signed_by_one_of(joined, kept.trusted)
    switched = next_kept(joined, NAMES, joined.trusted, moment + HOUR)
    assert is_signed_by_one_of(switched, switched.authority.certificate)


def test_an_authority_that_has_ended_is_trusted_no_more() -> None:
    kept = first()
    after = next_kept(kept, NAMES, kept.trusted, NOW + AUTHORITY_LIFE + HOUR)
    assert kept.authority.certificate not in after.trusted
