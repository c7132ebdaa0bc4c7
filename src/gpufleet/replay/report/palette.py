"""The colours and dash patterns of the report, for light and dark pages.

Charts name a colour as a CSS variable, so one chart serves both themes, print and the toggle
without being drawn again; a PNG has no CSS, so there the variables are replaced by light colours.
Every hue has a contrast of at least 3 to 1 on its page, and no two policies differ by hue alone:
dashes and labels at the lines say it too. ``chart`` uses the variables, ``page`` writes them.
"""

import re

# For light and dark pages; far enough apart for people who see few colours.
POLICY_INKS = (
    ("#0b62c4", "#6cb0ff"),
    ("#c24a00", "#ff9a57"),
    ("#007a5a", "#45d3a2"),
    ("#8438a8", "#d09bf2"),
    ("#8a6100", "#e8bf45"),
    ("#0f7ea6", "#72d5f5"),
    ("#bf2f76", "#ff8dbd"),
    ("#4a5462", "#b9c2ce"),
    ("#5b7400", "#b9d353"),
    ("#8b2b2b", "#ec9090"),
)
# A second way to tell lines apart, for print and for people who see no colours.
POLICY_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3), (12, 3), (4, 2))
REASON_INKS = (
    ("#b5450b", "#ff9a57"),
    ("#7a4bb3", "#c9a2f5"),
    ("#2f6f9f", "#74bdf0"),
    ("#8d98a7", "#8793a3"),
    ("#1d8a60", "#4fd0a0"),
)
# From a GPU in full use to one entirely free: quiet to loud, and monotone in lightness, so that
# the order is read without telling hues apart.
HEAT_INKS = (
    ("#dce3eb", "#2b343f"),
    ("#f8cf8c", "#5b3d1c"),
    ("#ee9f45", "#8f5a22"),
    ("#d4691c", "#cc8232"),
    ("#a03e10", "#f3b565"),
    ("#5c1708", "#fff0cf"),
)
PAGE_INKS = {
    "page": ("#f5f7fa", "#0f1419"),
    "surface": ("#ffffff", "#182028"),
    "text": ("#17202b", "#e8edf3"),
    "muted": ("#566373", "#a3b0bf"),
    "grid": ("#e3e8ee", "#2a343f"),
    "edge": ("#d3dae3", "#33404d"),
    "accent": ("#0b62c4", "#6cb0ff"),
    "accent-pale": ("#a9c9ec", "#2f5f94"),
    "on-ink": ("#ffffff", "#0f1419"),
    "warning": ("#8a4b00", "#ffc56e"),
    "warning-surface": ("#fff4e0", "#33260f"),
}
_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")


def policy_ink(index: int) -> str:
    """The colour of the policy at ``index``; colours repeat after ten, dashes then differ."""
    return f"var(--policy-{index % len(POLICY_INKS)})"


def policy_dash(index: int) -> tuple[int, ...]:
    """The dash pattern of the policy at ``index``; empty for a solid line."""
    return POLICY_DASHES[(index + index // len(POLICY_INKS)) % len(POLICY_DASHES)]


def reason_ink(index: int) -> str:
    """The colour of the reason at ``index``."""
    return f"var(--reason-{index % len(REASON_INKS)})"


def _inks() -> dict[str, tuple[str, str]]:
    numbered = {"policy": POLICY_INKS, "reason": REASON_INKS, "heat": HEAT_INKS}
    named = {f"{name}-{i}": ink for name, inks in numbered.items() for i, ink in enumerate(inks)}
    return PAGE_INKS | named


def css_variables(*, dark: bool) -> str:
    """The CSS declarations of one theme."""
    return "".join(f"--{name}:{ink[dark]};" for name, ink in _inks().items())


def with_light_inks(text: str) -> str:
    """``text`` with every CSS variable of the palette replaced by its light colour."""
    inks = _inks()
    return _VARIABLE.sub(lambda match: inks[match[1]][0] if match[1] in inks else match[0], text)
