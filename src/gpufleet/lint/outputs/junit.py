"""The report as JUnit XML: a suite for each file, a case for each finding, a passed one if clean."""

from xml.etree import ElementTree as ET

from gpufleet.lint.findings import Report
from gpufleet.model.visible import visible_text

# Two characters that no document of XML may have, escaped or not.
_NOT_IN_XML = dict.fromkeys((65534, 65535))


def as_junit(report: Report) -> str:
    """The report as test cases."""
    root = ET.Element("testsuites", name="gpufleet lint")
    for source in dict.fromkeys((*report.sources, *(one.source for one in report.problems))):
        _suite(root, report, source)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, report: Report, source: str) -> None:
    suite = ET.SubElement(root, "testsuite", name=_clean(source))
    findings = [one for one in report.findings if one.source == source]
    problems = [one for one in report.problems if one.source == source]
    unjudged = [one for one in report.unjudged if one.source == source]
    for finding in findings:
        case = _case(suite, finding.rule.id, f"{finding.object}: {finding.path}")
        place = f"{source}:{finding.position.line}:{finding.position.column}"
        failure = ET.SubElement(case, "failure", type=finding.severity.word, message=_clean(finding.says))
        failure.text = _clean(f"{place}: {finding.advice}")
    for problem in problems:
        case = _case(suite, "input", f"line {problem.position.line}")
        ET.SubElement(case, "error", message=_clean(str(problem)))
    for unknown in unjudged:
        case = _case(suite, unknown.rule.id, unknown.object)
        ET.SubElement(case, "skipped", message=_clean(f"not judged: {unknown.lacks}"))
    if not findings and not problems:
        _case(suite, "all rules", "nothing found")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(findings)))
    suite.set("errors", str(len(problems)))
    suite.set("skipped", str(len(unjudged)))


def _case(suite: ET.Element, rule: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=rule, name=_clean(name))


def _clean(text: str) -> str:
    """XML has no way to write most control characters, nor halves of surrogate pairs: they are spelt out."""
    return visible_text(text).translate(_NOT_IN_XML)
