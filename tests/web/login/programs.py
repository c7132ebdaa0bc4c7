"""oauth2-proxy, and the example provider of zitadel's OpenID Connect library, which logs people in.

``python -m tests.web.login.programs`` builds them from Go modules that are pinned here
(`make login-programs`); ``--pin`` pins the modules anew. A test asks for a program and builds nothing.
"""

import sys
from functools import cache
from pathlib import Path

from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.pin_modules import pin
from gpufleet.localkube.programs.releases import Release
from gpufleet.model.model_errors import GpufleetError
from gpufleet.progress.reporting import Silent, ToPerson
from tests.lacking import lacking
from tests.localkube.cluster import refuse_build, refuse_download

PINS = Path(__file__).with_name("gomodules")
PROXY = Release(
    project="oauth2-proxy",
    version="7.15.6",
    module="github.com/oauth2-proxy/oauth2-proxy/v7",
    packages=(("oauth2-proxy", "github.com/oauth2-proxy/oauth2-proxy/v7"),),
    linker_flags="",
    from_path=False,
    pins=PINS,
)
PROVIDER = Release(
    project="zitadel-oidc",
    version="3.52.0",
    module="github.com/zitadel/oidc/v3",
    packages=(("oidc-provider", "github.com/zitadel/oidc/v3/example/server"),),
    linker_flags="",
    from_path=False,
    pins=PINS,
)
RELEASES = (PROXY, PROVIDER)


@cache
def program(release: Release) -> Path:
    """The program of a release; skips the test, or fails it in CI, where it is not in the cache."""
    makers = binaries.Makers(download=refuse_download, build=refuse_build)
    (name,) = release.programs
    try:
        return binaries.find({name: release}, Silent(), makers=makers)[name].path
    except ProgramsMissingError:
        lacking(f"there is no {name} {release.version}: make login-programs")


def main(arguments: list[str]) -> None:
    """Fill the cache, or pin the modules."""
    if arguments == ["--pin"]:
        for release in RELEASES:
            pin(release)
        return
    progress = ToPerson("login: ")
    wanted = {name: release for release in RELEASES for name in release.programs}
    progress.say(binaries.sentence(binaries.find(wanted, progress)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GpufleetError as error:
        raise SystemExit(f"login: {error}") from error
