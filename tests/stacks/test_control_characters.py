"""No text of a stack file may steer a terminal: the real `pulumi` prints these values, and nobody is in between."""

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.stack_file.judge import judge_file

ROOT = Path(__file__).resolve().parents[2]
EVIL = "\x1b]0;owned\x07"
ROLE = {"roleArn": "arn:aws:iam::111122223333:role/ci"}
OWN = {"weights-gib": 2, "layers": 32, "kv-heads": 8, "head-dim": 64}


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("aws:region", EVIL),
        ("aws:profile", f"work{EVIL}"),
        ("aws:assumeRoles", [{"roleArn": ROLE["roleArn"] + EVIL}]),
        ("aws:assumeRoles", [{**ROLE, "sessionName": f"up{EVIL}"}]),
        ("aws:assumeRoles", [{**ROLE, "duration": f"2h{EVIL}"}]),
        ("aws:allowedAccountIds", [f"111122223333{EVIL}"]),
        ("aws:defaultTags", {"tags": {f"team{EVIL}": "ml"}}),
        ("aws:defaultTags", {"tags": {"team": f"ml{EVIL}"}}),
        ("tandem:tags", {f"team{EVIL}": "ml"}),
        ("tandem:tags", {"team": f"ml{EVIL}"}),
        ("tandem:models", [{"name": f"llama2:7b{EVIL}"}]),
        ("tandem:models", [{"name": "llama2:7b", "id": f"a{EVIL}"}]),
        ("tandem:models", [{"name": "llama2:7b", "pool": f"gpu{EVIL}"}]),
        ("tandem:models", [{"name": "own:1b", **OWN, "architecture": f"llama{EVIL}"}]),
        ("tandem:models-clients", {"namespaces": [f"team{EVIL}"]}),
        ("tandem:models-clients", {"labels": {"team": f"ml{EVIL}"}}),
        ("tandem:models-clients", {"labels": {f"team{EVIL}": "ml"}}),
        ("tandem:gpu-nodes", {"instance-types": [f"g4dn.xlarge{EVIL}"]}),
        ("tandem:gpu-nodes", [{"name": f"gpu{EVIL}", "instance-types": ["g4dn.xlarge"]}]),
        ("tandem:cluster", {"system-nodes": {"instance-types": [f"t3.medium{EVIL}"]}}),
        ("tandem:cluster", {"kubernetes": f"1.36{EVIL}"}),
        ("tandem:cluster", {"cidr": f"10.0.0.0/16{EVIL}"}),
        ("tandem:cluster", {"public-access-cidrs": [f"203.0.113.7/32{EVIL}"]}),
        ("tandem:cluster", {"zone-names": [f"us-east-1a{EVIL}", "us-east-1b"]}),
        ("tandem:cluster", {"admins": [ROLE["roleArn"] + EVIL]}),
    ],
)
def test_a_value_with_control_characters_is_refused(tmp_path: Path, section: str, value: Any) -> None:
    document = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    document["config"][section] = value
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = [problem.path for problem in judge_file(path, today=datetime.date(2026, 11, 22)).problems]
    named = section if section.startswith("aws:") else section.removeprefix("tandem:")
    assert [each for each in found if each.startswith(named)]
