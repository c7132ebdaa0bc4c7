"""What a request line asks for: kind, namespace, name, subresource and options."""

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from gpufleet.simulation.refusal import bad_request


class Target(msgspec.Struct, frozen=True):
    """The parts of path and query. ``group`` is "" for the core group; absent parts are ""."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    options: dict[str, str] = {}

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return "dryRun" in self.options

    @property
    def watching(self) -> bool:
        """Whether a stream of changes is asked for."""
        return self.options.get("watch", "") in {"1", "true", "True"}

    def number(self, option: str) -> int | None:
        """An option that is a number, None where it is absent."""
        text = self.options.get(option, "")
        if not text:
            return None
        if not text.isdecimal():
            raise bad_request(
                f'strconv.ParseUint: parsing "{text}": invalid syntax'
                if option == "resourceVersion"
                else f'invalid value "{text}" for {option}'
            )
        return int(text)


def read_target(text: str) -> Target | None:
    """The target of a resource, None where the path is none (discovery, health)."""
    split = urlsplit(text)
    parts = [unquote(part) for part in split.path.split("/") if part]
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # These two are subresources of the Namespace itself, not kinds within it.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    if options.get("dryRun", "All") != "All":
        raise bad_request(f'dryRun: Unsupported value: "{options["dryRun"]}"')
    return Target(group, version, plural, namespace, name, subresource, options)
