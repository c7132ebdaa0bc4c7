"""The webhook's certificates in the cluster: one Secret, the files that the server shows, and the caBundles.

Every replica takes the same step each minute, and the resource version of the Secret lets one of them write.
The authorities that the API server is told (caBundle) are always all that the Secret trusts, so a certificate
is only shown when the server can know its authority. ``certificates`` says what is due.
"""

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.admission.certificates import Kept, Pair, UnusableError, ends, next_kept
from gpufleet.files.atomic_write import write_whole
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Kind
from gpufleet.kube.status import Conflict, NotFound

LOG = logging.getLogger(__name__)
EVERY_S = 60.0
SOON_S = 2.0
"""After a write the next step follows at once: an authority that is known now may sign."""

HANDSHAKE_S = 5.0
"""It takes some milliseconds on one machine."""

KEYS = ("tls.crt", "tls.key", "authority.crt", "authority.key", "ca.crt")


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    client_config: _ClientConfig = _ClientConfig()


class _Configuration(msgspec.Struct, frozen=True):
    metadata: _Metadata
    webhooks: list[_Webhook] = []


_SECRET: msgspec.json.Decoder[_Secret] = msgspec.json.Decoder(_Secret)
_CONFIGURATION: msgspec.json.Decoder[_Configuration] = msgspec.json.Decoder(_Configuration)


class Rotation:
    """Keeps the files ``certificate`` and ``key`` below ``folder`` as the Secret has them."""

    def __init__(self, client: Client, namespace: str, name: str, names: Sequence[str], folder: Path) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._names = tuple(names)
        self.certificate = folder / "tls.crt"
        self.key = folder / "tls.key"
        self._kept: Kept | None = None
        self._known = b""
        self.problem = "the certificates are not read yet"
        """What keeps certificates from being used; empty where nothing does."""

    @property
    def ends_at_s(self) -> float | None:
        """When the certificate that is shown ends (Unix time); None before there is one."""
        return None if self._kept is None else ends(self._kept).timestamp()

    async def first(self) -> None:
        """Return when there are files to show."""
        while self._kept is None:
            if await self._try() and self._kept is None:
                continue
            if self._kept is None:
                await self._client.clock.sleep(SOON_S)

    async def run(self) -> None:
        """Keep everything as it shall be, until cancelled."""
        while True:
            changed = await self._try()
            await self._client.clock.sleep(SOON_S if changed or self.problem else EVERY_S)

    async def _try(self) -> bool:
        try:
            changed = await self.step()
        except (KubeError, OSError, UnusableError) as error:
            if str(error) != self.problem:
                LOG.warning("the certificates cannot be kept", extra={"problem": str(error)})
            self.problem = str(error)
            return False
        self.problem = ""
        return changed

    async def step(self) -> bool:
        """Do what is due; whether something was written. Raises KubeError."""
        configurations = await self._configurations()
        self._known = _known_to_all([one for _, one in configurations])
        answer = await self._client.get(SECRETS, self._name, namespace=self._namespace)
        secret = decode(answer, _SECRET)
        now = self._client.clock.now()
        held = _kept_of(secret)
        try:
            kept = next_kept(held, self._names, self._known, now)
        except UnusableError:
            LOG.warning("the Secret holds no certificates of ours: they are made anew")
            kept = next_kept(None, self._names, self._known, now)
        changed = kept != held
        if changed:
            try:
                await self._write(secret, kept)
            except Conflict:
                # Another replica was faster: the next step reads what it wrote.
                return True
        self._show(kept)
        for kind, configuration in configurations:
            changed |= await self._tell(kind, configuration, kept.trusted)
        return changed

    async def handshake(self, port: int) -> str:
        """Why the API server could not speak to this server; empty where it can."""
        if not self._known:
            return "no webhook knows an authority yet"
        context = ssl.create_default_context(cadata=self._known.decode("ascii"))
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, server_hostname=self._names[0]
                )
        except (OSError, TimeoutError) as error:
            return f"a handshake as the API server makes it fails: {error}"
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return ""

    async def _configurations(self) -> list[tuple[Kind, _Configuration]]:
        found = []
        for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
            try:
                answer = await self._client.get(kind, self._name)
            except NotFound:
                # The installation has no webhook of this kind.
                continue
            found.append((kind, decode(answer, _CONFIGURATION)))
        return found

    async def _write(self, secret: _Secret, kept: Kept) -> None:
        values = (
            kept.server.certificate,
            kept.server.key,
            kept.authority.certificate,
            kept.authority.key,
            kept.trusted,
        )
        data = {key: base64.b64encode(one).decode() for key, one in zip(KEYS, values, strict=True)}
        version = {"resourceVersion": secret.metadata.resource_version}
        body = {"metadata": version, "data": data}
        await self._client.patch(SECRETS, self._name, body, namespace=self._namespace)
        LOG.info("certificates were made", extra={"until": ends(kept).isoformat()})

    def _show(self, kept: Kept) -> None:
        if self._kept is None or kept.server != self._kept.server:
            # The key first: between both, the pair before stays in use.
            write_whole(self.key, kept.server.key)
            write_whole(self.certificate, kept.server.certificate)
        self._kept = kept

    async def _tell(self, kind: Kind, configuration: _Configuration, trusted: bytes) -> bool:
        wanted = base64.b64encode(trusted).decode()
        patch: list[dict[str, Any]] = []
        for index, one in enumerate(configuration.webhooks):
            if one.client_config.ca_bundle != wanted:
                at = f"/webhooks/{index}"
                # Webhooks may have changed their order since they were read: the patch fails then.
                patch.append({"op": "test", "path": f"{at}/name", "value": one.name})
                patch.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": wanted})
        if not patch:
            return False
        # The server asks for this name, whatever address it connects to.
        await self._client.patch(kind, self._name, patch, patch_type=PatchType.JSON)
        return True


def _kept_of(secret: _Secret) -> Kept | None:
    data = secret.data or {}
    if not all(data.get(key) for key in KEYS):
        return None
    server, key, authority, authority_key, trusted = (base64.b64decode(data[name]) for name in KEYS)
    return Kept(Pair(server, key), Pair(authority, authority_key), trusted)


def _known_to_all(configurations: list[_Configuration]) -> bytes:
    """The authorities that every webhook names; all are written alike, so one that differs knows none."""
    bundles = {one.client_config.ca_bundle for each in configurations for one in each.webhooks}
    return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""
