"""Where a program listens, as a person writes it."""

from gpufleet.model.model_errors import InputError


def address_of(text: str, field: str) -> tuple[str, int]:
    """Host and port of ADDRESS:PORT; without an address, all of them. Raises InputError naming the field."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        expected = "ADDRESS:PORT, such as 127.0.0.1:9090"
        raise InputError("not an address", field=field, value=text, expected=expected)
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving the address out
