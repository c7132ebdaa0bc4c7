"""Commands of kubectl that ways out name."""

from gpufleet.lint.objects.manifest import Manifest


def get_command(manifest: Manifest) -> str:
    """The command that gets an object."""
    kind = f"{manifest.kind}.{manifest.group}".rstrip(".").lower()
    place = f" -n {manifest.namespace}" if manifest.namespace else ""
    return f"kubectl get{place} {kind} {manifest.name}"
