"""Every `# renovate:` comment is one that Renovate's configuration reads, and asks a datasource that Renovate has."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFIG = json.loads((ROOT / ".github" / "renovate.json").read_text(encoding="utf-8"))
DATASOURCES = {"aws-eks-addon", "docker", "endoflife-date", "github-releases", "go", "helm"}
"""Renovate's datasources that we use (renovatebot/renovate, `lib/modules/datasource/`, commit c2dd4f8, 2026-08-22)."""
LOCKS = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("requirements*.txt"), *ROOT.glob("policy/*.txt")))
PINS = [
    path
    for path in sorted(ROOT.glob("[!.]*/**/*.py"))
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    and re.search(r"^# renovate: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
]
assert len(PINS) >= 2
Found = dict[str, str | None]


def found(text: str) -> list[Found]:
    """The pins that Renovate finds in a file (`strategies.ts`): each string searches the result of the one before."""
    pins: list[Found] = []
    for manager in CONFIG["customManagers"]:
        # Python writes a named group differently; everything else is the same.
        expressions = [string.replace("(?<", "(?P<") for string in manager["matchStrings"]]
        matches: list[tuple[str, Found]] = [(text, {})]
        for expression in expressions:
            matches = [
                (match[0], {**groups, **match.groupdict()})
                for inside, groups in matches
                for match in re.finditer(expression, inside)
            ]
        pins += [groups for _, groups in matches]
    return pins


@pytest.mark.parametrize("path", PINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_renovate_reads_every_comment_and_the_pin_below_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for manager in CONFIG["customManagers"]:
        [pattern] = manager["managerFilePatterns"]
        assert re.search(pattern.strip("/"), str(path.relative_to(ROOT)))
    comments = re.findall(r"^# renovate: datasource=(\S+) depName=(\S+)", text, flags=re.MULTILINE)
    assert len(comments) == text.count("# renovate:")
    pins = found(text)
    assert {(pin["datasource"], pin["depName"]) for pin in pins} == set(comments)
    assert {datasource for datasource, _ in comments} <= DATASOURCES
    assert all(re.fullmatch(r"v?\d[\w.-]*", pin["currentValue"] or "") for pin in pins)


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ('CHART = "v26.7.0"', [(None, "v26.7.0", None)]),
        (f'TAG = "0.32.15@sha256:{"a" * 64}"', [(None, "0.32.15", f"sha256:{'a' * 64}")]),
        (
            f'IMAGE = (\n    "docker.io/python:3.13-slim"\n    "@sha256:{"b" * 64}"\n)',
            [(None, "3.13-slim", f"sha256:{'b' * 64}")],
        ),
        # An add-on has a version for each version of Kubernetes.
        (
            'DNS = {"1.35": "v1.13.2-eksbuild.31", "1.36": "v1.14.3-eksbuild.23"}',
            [("1.35", "v1.13.2-eksbuild.31", None), ("1.36", "v1.14.3-eksbuild.23", None)],
        ),
    ],
)
def test_a_version_is_read_without_the_name_of_its_image(below: str, expected: list[tuple[str | None, ...]]) -> None:
    source = "aws-eks-addon" if "eksbuild" in below else "docker"
    pins = found(f"# renovate: datasource={source} depName=some/image\n{below}\n")
    keys = ("kubernetes", "currentValue", "currentDigest")
    assert [tuple(pin.get(key) for key in keys) for pin in pins] == expected


def test_renovate_reads_every_lock_of_python_packages() -> None:
    # docs.renovatebot.com/modules/manager/pip_requirements, its default pattern of 2026-02-28.
    assert LOCKS == ["policy/requirements.txt", "requirements-dev.txt", "requirements-docs.txt", "requirements.txt"]
    assert all(re.search(r"(^|/)[\w-]*requirements([-.]\w+)?\.(txt|pip)$", name) for name in LOCKS)
    assert "pip_requirements" in CONFIG["enabledManagers"]
    [rule] = [rule for rule in CONFIG["packageRules"] if rule.get("matchManagers") == ["pip_requirements"]]
    # Packages of one lock are resolved together, and several locks have the same package.
    assert rule["groupName"]
    # renovatebot/renovate#16869: it does not update the hashes of a package with extras.
    locked = [line for name in LOCKS for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    assert not [line for line in locked if re.match(r"[\w.-]+\[", line)]
