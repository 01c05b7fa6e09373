"""`tandem plan --format github`: workflow commands, as GitHub's runner decodes them."""

import re
from pathlib import Path
from urllib.parse import unquote

from tests.command import ROOT, call

WRONG = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice, replicas: 1}
  tandem:models: [{name: "100%: a,b"}]
"""


def decoded(line: str) -> tuple[str, dict[str, str], str]:
    """Parses a command like the runner (actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2)."""
    found = re.fullmatch(r"::(\w+) ?(.*?)::(.*)", line)
    assert found, line
    pairs = dict(pair.split("=", 1) for pair in found[2].split(",") if pair)
    return found[1], {key: unquote(value) for key, value in pairs.items()}, unquote(found[3])


def test_errors_and_warnings_are_workflow_commands_with_file_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.a,b:c%.yaml"
    file.write_text(WRONG)
    done = call("plan", "./" + file.name, "--format", "github", cwd=tmp_path)
    kinds, properties, messages = zip(*map(decoded, done.stdout.splitlines()), strict=True)
    report = call("plan", str(file), "--json").json
    assert done.returncode == 1
    assert kinds == ("error",) * len(report["problems"]) + ("warning",) * len(report["warnings"])
    assert {each["file"] for each in properties} == {file.name}
    assert (properties[0]["line"], properties[0]["col"]) == ("3", "47")
    assert messages[0].startswith("sharing.replicas: must be at least 2, not 1.")
    assert "100%: a,b" in messages[1]
    # Only `%` and line ends are escaped in a message; `:` and `,` also in a property.
    assert "file=Pulumi.a%2Cb%3Ac%25.yaml,line=3,col=47::" in done.stdout
    assert "100%25: a,b" in done.stdout


def test_an_accepted_stack_prints_its_warnings_and_succeeds() -> None:
    done = call("plan", "mps", "--format", "github")
    assert (done.returncode, done.stderr) == (0, "")
    kind, properties, message = decoded(done.stdout.rstrip("\n"))
    assert (kind, properties["file"], message.partition(": ")[0]) == ("warning", "Pulumi.mps.yaml", "sharing.mode")
    line = (ROOT / "Pulumi.mps.yaml").read_text().splitlines()[int(properties["line"]) - 1]
    assert line[int(properties["col"]) - 1 :].startswith("mps")
    assert call("plan", "dev", "--format", "github").stdout == ""


def test_a_file_that_cannot_be_read_is_an_error_without_a_line(tmp_path: Path) -> None:
    done = call("plan", "nosuch.yaml", "--format", "github", cwd=tmp_path)
    assert done.returncode == 2
    assert re.match(r"::error::.*nosuch\.yaml", done.stdout)


def test_two_forms_at_once_are_a_usage_error() -> None:
    assert call("plan", "dev", "--format", "github", "--json").returncode == 2
