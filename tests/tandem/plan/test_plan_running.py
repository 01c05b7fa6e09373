"""`tandem plan STACK --running` and `--outputs FILE`: the plan, and its changes to the deployed stack."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter

from stacks.outputs import describe
from stacks.stack_file.judge import judge_file
from tandem.plan_json.report import PlanReport
from tests.command import Ended, call, on_screen
from tests.sharing.builders import pair, pool, setup, tenants
from tests.tandem.fake_pulumi import bare_project, pulumi
from tests.tandem.outputs import outputs
from tests.tandem.plan.test_plan_screen import ANSI

ROOT = Path(__file__).parents[3]
TIMESLICE = outputs(setup(models=tenants(*pair()), pools=(pool(types=("g4dn.xlarge", "g4dn.2xlarge")),)))
NOTHING_STOPPED = "Nothing was stopped: the running stack is as it was."


@pytest.fixture
def up(tmp_path: Path) -> Path:
    """A file with the outputs of the stack `timeslice`."""
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(TIMESLICE))
    return file


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """The stack with shares that are too small for its models."""
    file = tmp_path / "Pulumi.timeslice.yaml"
    text = (ROOT / "Pulumi.timeslice.yaml").read_text()
    file.write_text(re.sub(r"tandem:sharing: .*", "tandem:sharing: {mode: mps, replicas: 8}", text))
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the stack `timeslice`, and a PATH with only what shells need."""
    bare_project(tmp_path, monkeypatch)
    (tmp_path / "Pulumi.timeslice.yaml").write_text((ROOT / "Pulumi.mps.yaml").read_text())
    return tmp_path


def test_a_switch_fits_a_terminal_of_80_columns(up: Path) -> None:
    code, screen = on_screen("plan", "mps", "--outputs", str(up))
    text = ANSI.sub("", screen).replace("\r\n", "\n")
    assert code == 0
    assert max(len(line) for part in text.split("\n") for line in part.split("\r")) <= 80
    assert "…" not in screen.rpartition("\x1b[2K")[2]


def test_a_change_of_one_limit_names_the_models_that_restart(tmp_path: Path) -> None:
    """The other model's limit changes, too: it has none in its file, so it gets what is left."""
    text = (ROOT / "Pulumi.per-model.yaml").read_text()
    small = '"llama3.2:3b", context: 8192'
    assert small in text
    for name, gib in (("before", 4), ("after", 3.5)):
        changed = text.replace(small, f"{small}, share: {{memory-gib: {gib}}}")
        (tmp_path / f"{name}.yaml").write_text(changed)
    before = judge_file(tmp_path / "before.yaml").plan()
    shown = json.dumps({**outputs(before.config), "fit": describe(before)["fit"]})
    (tmp_path / "outputs.json").write_text(shown)
    up = ["--outputs", str(tmp_path / "outputs.json")]
    same = call("plan", str(tmp_path / "before.yaml"), *up)
    assert "\nno pool changes its mode\nBased on" in same.stdout
    changed_limit = call("plan", str(tmp_path / "after.yaml"), *up, columns=200).stdout
    assert "llama3-2-3b restarts, as its limit changes: 4,096 → 3,584 MiB; unavailable for about 1." in changed_limit
    restarts = call("plan", str(tmp_path / "after.yaml"), *up, "--json").json["switch"]["restarts"]
    assert [each["model"] for each in restarts] == ["qwen3-14b", "llama3-2-3b"]
    large, _ = restarts
    assert large["after_mib"] - large["before_mib"] == 4096 - 3584


@pytest.mark.parametrize("how", ["--running", "--outputs"])
def test_a_refused_file_stops_nothing_and_makes_no_requests(
    how: str, refused: Path, up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    asked = ["--running"] if how == "--running" else ["--outputs", str(up.parent / "nosuch.json")]
    ended = call("plan", str(refused), *asked)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith("error: Pulumi.timeslice.yaml has 2 errors\n")
    assert ended.stdout == f"{call('plan', str(refused)).stdout}{NOTHING_STOPPED}\n", (
        "only reported for a running stack"
    )
    shown = call("plan", str(refused), *asked, "--json")
    jsonschema.validate(shown.json, TypeAdapter(PlanReport).json_schema())
    assert (shown.returncode, shown.json["verdict"], shown.json["switch"]) == (1, "refused", None)


POOL: dict[str, Any] = TIMESLICE["pools"]["gpu"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"cannot read the outputs in .*outputs\.json: No such file or directory\. .*stack output --json"),
        ("", r"outputs\.json is not valid JSON\. Write it with `pulumi stack output --json --stack mps > "),
        ("Current stack outputs (7):\n", r"outputs\.json is not valid JSON\."),
        ("[" * 100_000, r"outputs\.json is not valid JSON\."),
        (b"\xff\xfe{\x00", r"outputs\.json is not valid JSON\."),
        ("[]", r"outputs\.json does not contain a JSON object\."),
        ("{}", r"Stack mps has no outputs: it is not deployed\. Run `pulumi up --stack mps` first\."),
        (json.dumps({"mode": "timeslice"}), r"outputs\.json: pools is missing, and 1 more\. .*`pulumi up --stack mps`"),
        (json.dumps({**TIMESLICE, "pools": {}}), r"outputs\.json: pools is not as expected \(.*at least 1"),
        (json.dumps({**TIMESLICE, "pools": "[secret]"}), r"outputs\.json: pools is not as expected"),
        (
            json.dumps({**TIMESLICE, "pools": {"gpu": {key: POOL[key] for key in POOL if key != "nodes"}}}),
            r"outputs\.json: pools\.gpu\.nodes is missing\. They are incomplete, or from another program\.",
        ),
        (
            json.dumps({**TIMESLICE, "pools": {"gpu": {**POOL, "shares": {"per_gpu": 2}}}}),
            r"outputs\.json: pools\.gpu\.shares is not as expected",
        ),
        (
            json.dumps({**TIMESLICE, "pools": {"gpu": {**POOL, "provisioner": "by hand"}}}),
            r"outputs\.json: pools\.gpu\.provisioner is not as expected",
        ),
    ],
)
def test_outputs_that_cannot_be_used_are_one_line_with_the_fix(
    text: str | bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "outputs.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    stack = str(ROOT / "Pulumi.mps.yaml")
    shown = call("plan", stack, "--outputs", str(file), "--json")
    line = shown.json["error"]
    assert re.match(rf".*{said}", line), line
    assert call("plan", stack, "--outputs", str(file)) == Ended(shown.returncode, "", f"error: {line}\n")
    assert (shown.returncode, line.count("\n")) == (2, 0)


def test_pulumi_is_asked_for_the_stack_in_its_project_and_for_no_secret(project: Path) -> None:
    pulumi(project, prints=json.dumps(TIMESLICE))
    ended = call("plan", "timeslice", "--running", cwd=project)
    assert ended.returncode == 0
    assert "Switch of pool gpu: timeslice-2 → mps-2\n" in ended.stdout
    called = (project / "called").read_text().split()
    assert called[:3] == [str(project), "stack", "output"]
    assert {"--json", "--non-interactive", "timeslice"} <= set(called)
    assert "--show-secrets" not in called


@pytest.mark.parametrize(
    ("prints", "says", "code", "said"),
    [
        ("", "error: no stack named 'timeslice' found", 255, "Stack timeslice does not exist in your Pulumi backend"),
        ("{}", "", 0, "Stack timeslice has no outputs: it is not deployed."),
        ('{"mode": "mps"}', "", 0, "the outputs of stack timeslice: pools is missing, and 1 more."),
    ],
)
def test_a_pulumi_that_knows_no_such_stack_is_one_line_with_the_fix(
    prints: str, says: str, code: int, said: str, project: Path
) -> None:
    pulumi(project, prints=prints, says=says, code=code)
    ended = call("plan", "timeslice", "--running", cwd=project)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"error: {said}")
    if code:
        assert "--outputs FILE" in ended.stderr
        assert "kubeconfig" not in ended.stderr


def test_a_file_with_a_byte_order_mark_is_read(up: Path) -> None:
    up.write_bytes(b"\xef\xbb\xbf" + up.read_bytes())
    assert call("plan", "mps", "--outputs", str(up)).returncode == 0
