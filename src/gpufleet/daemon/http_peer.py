"""The other end of a connection: its address, and the certificate that it showed and that was verified.

``http_server`` puts both into a request; which user that is, each daemon decides.
"""

import asyncio


def peer_of(writer: asyncio.StreamWriter) -> str:
    """The address at the other end; "" where it has none."""
    address = writer.get_extra_info("peername")
    return str(address[0]) if address else ""


def client_certificate_of(writer: asyncio.StreamWriter) -> bytes:
    """The certificate that the client showed and that was verified."""
    secure = writer.get_extra_info("ssl_object")
    return b"" if secure is None else secure.getpeercert(binary_form=True) or b""
