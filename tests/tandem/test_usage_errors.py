"""What a usage error prints, word for word, and as JSON; also one that needs a `pulumi` which is
missing. `--regen` writes `usage-errors.txt`.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.command import ROOT, call, on_screen
from tests.conftest import Golden
from tests.shipped import copy_project

VPC = "aws:ec2/vpc:Vpc vpc-1"
VERBS = ("up {}", "preview {}", "refresh {}", "destroy {}", "status {}", "pulumi {} -- stack", f"delete {{}} {VPC}")
MANY = " ".join(["llama2:7b"] * 65)
REACHING = ("verify", "watch", "metrics", "env --foreground", "chat", "bench")
"""The commands that reach a cluster without any other word."""
CALLS = (
    *(
        "pln",
        "plan --jsn",
        "plan dev --verb",
        "plan dev --outptus f",
        "plan dev extra",
        "--jsn plan",
        "--json plan",
        "--versoin",
        "-x",
        "help nosuch",
        "sandbox upp",
    ),
    *("models insepct", "models inspect", "modes --mode mgi --type", "bench --seed x", "bench --temperature -1"),
    *("models --quant q8_0 llama2", "models --quant q9", "models --fits g6.xlargee", "models 70b --fits t4"),
    *("gpus t4", "plan dev --graph", "plan dev --compare", "completion"),
    *("bench dev -o", "sandbox wait dev 8"),
    *("choose", "choose llama2:7b --stack dev", "choose --stack nowhere", "choose --stack broken.yaml"),
    *("choose lama2:7b", "choose llama2:7b 'in valid'", f"choose {MANY}", "choose llama2:7b --slots 65"),
    *("choose llama2:7b --context 5", "choose llama2:7b --context -5", "choose llama2:7b --region us-est-1"),
    *("choose llama2:7b --budget -1", "choose llama2:7b --budget 300/year", "choose llama2:7b --budget /month"),
    *("choose llama2:7b --budget nan", "choose llama2:7b --capacity sport", "choose llama2:7b --force"),
    *("choose --stack dev --nights-off", "choose llama2:7b --region any --hours 8-20"),
    *("modes --type g4dn.xlarg", "modes --type ''", "modes --region eu-centrl-1", "modes --mode mgi"),
    *("modes nowhere", "modes broken.yaml", "modes odd.yaml"),
    *("models --filter lamma2:7b", "gpus --filter g4dn.xlarg3", "gpus --region eu-centrl-1"),
    *("models inspect none.gguf", "models inspect 'a b'", "models inspect m:1b --ollama host:1"),
    *("models inspect ./m.gguf --write dev", "models inspect m:1b --write nowhere"),
    *("plan dev --compare mgi", "plan dev mps --compare mps", "plan dev nosuch", "plan dev mps --running"),
    *(
        "plan qwen3:8b --write ''",
        "init mine --model qwen3:8b --model ''",
        "plan qwen3:8b --region=",
        "plan qwen3:8b --hours ''",
    ),
    *("plan timeslise", "plan MPS", "plan nosuch", "plan .", "plan ..", "plan mps --running --outputs outputs.json"),
    *(f"{command} timeslise" for command in ("doctor", "leftovers", "quota", "prices", "verify", "watch", "bench")),
    *(
        "metrics",
        "metrics timeslise",
        "metrics --url a=http://h:1 --listen x",
        "run",
        "run timeslise",
        "run dev lama2:7b",
        "run dev gpt Why?",
        "run dev llama2:7b Why? more",
        "run dev --yes llama2:7b --seed 1 Why? more",
        "env",
        "env timeslise",
        "env timeslise --stop",
        "env dev lama2:7b",
        "env dev --shell fsh",
        "chat timeslise",
        "chat",
        "chat --url a=http://h:1",
        "leftovers --yes",
        "leftovers --delete",
        "report none.json",
    ),
    *(f"{command} --region us-east-11" for command in ("doctor", "leftovers", "quota", "prices")),
    *(f"{command} --region any" for command in ("modes", "gpus", "prices")),
    *(f"{name} dev --context x" for name in REACHING),
    *(f"{name} dev --kubeconfig nowhere" for name in REACHING),
    *(f"verify --wait={seconds}" for seconds in ("-1", "inf", "nan", "soon")),
    *("bench --concurrency 0", "bench --rate -1", "bench --requests x", "bench --usd-per-hour inf"),
    *("bench --prompt-words 7", "sandbox pulumi", "sandbox delete", "sandbox delete timeslice"),
    *("sandbox delete timeslice vpc", "sandbox pulumi dev stack output", "sandbox up dev --target x"),
    *("sandbox destroy dev --refresh", "sandbox status timeslice -- --refresh"),
    f"sandbox delete timeslice {VPC} -- --refresh",
    *(f"sandbox up --pace={pace}" for pace in ("-1", "nan", "inf", "x")),
    *(f"{command} dev" for command in (*REACHING, "plan --running")),
    *("open timeslise", "open dev", "open dev --port 65536"),
    *(
        f"sandbox {verb.format(stack)}"
        for stack in ("timeslice", "timslice", "nowhere/Pulumi.foo.yaml")
        for verb in VERBS
    ),
)
BROKEN = "config: {aws:region: us-east-1, tandem:models: [{name: lama2}, {name: mistal}]}"


@pytest.mark.slow
def test_every_usage_error_is_reported_as_in_the_golden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    copy_project(tmp_path)
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "odd.yaml").write_text(BROKEN.replace("models", "modelz"), encoding="utf-8")
    calls: dict[str, list[str]] = {}
    for words in CALLS:
        ended = call(*shlex.split(words), cwd=tmp_path)
        lines = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
        assert (ended.returncode, ended.stdout) == (2, ""), words
        assert lines, words
        if "--" not in words.split():
            printed = call(*shlex.split(words), "--json", cwd=tmp_path)
            assert (printed.returncode, printed.json.keys()) == (2, {"schema_version", "error", "problems"}), words
            if not words.startswith(("sandbox pulumi", "sandbox preview")):
                assert [f"error: {line}" for line in printed.json["error"].splitlines()] == lines, words
        if usage := ended.stderr.partition("\n\n")[2]:
            named = re.fullmatch(r"usage: (tandem .*)\nRun `(tandem.*) --help` for more\.\n", usage)
            assert named, words
            assert named[1].startswith(f"{named[2]} "), words
            lines[-1] += f" [usage of {named[2]}]"
        calls.setdefault("\n".join(lines), []).append(f"$ tandem {words.replace(MANY, 'llama2:7b × 65')}")
    assert not (tmp_path / ".tandem").exists()
    said = "".join("\n".join([*same, error, ""]) for error, same in calls.items())
    golden("usage-errors.txt", said.replace(str(tmp_path), "FOLDER"))


LONG = "x" * 300
"""No file system of Linux or macOS has so long a name: 255 bytes (limits.h, NAME_MAX)."""
FILES = (
    f"plan dev --outputs {LONG}",
    f"verify dev --kubeconfig {LONG}",
    f"models inspect {LONG}.gguf",
    f"report {LONG}",
)


@pytest.mark.parametrize(
    "words",
    [
        f"plan {LONG}",
        f"sandbox up {LONG}",
        f"models {LONG}",
        f"modes --type {LONG}",
        f"plan dev --{LONG}",
        LONG,
        *FILES,
    ],
    ids=lambda words: words.replace(LONG, "LONG"),
)
def test_a_name_that_no_file_can_have_is_one_error(words: str) -> None:
    ended = call(*words.split())
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert words in FILES or LONG not in ended.stderr


ENDPOINT = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_ENDPOINT_URL": "http://bob:PW@127.0.0.1:1/?t=PW",
}
SECRET = "http://bob:PW@127.0.0.1:1/?token=PW"
SPLIT = "http://bob:PW/PW@127.0.0.1:1"
"""To a parser, `bob` is the host and `PW` its port."""
WITH_SECRETS = (
    *(f"models inspect m:1b --ollama {url}" for url in (SECRET, SPLIT, "h/?token=PW")),
    *(
        f"models inspect {SECRET}",
        f"models inspect {SPLIT}/x.gguf",
        f"metrics --url {SECRET}",
        f"bench --url a={SPLIT}",
    ),
    *(f"report {SECRET}", f"plan dev --graph={SECRET}.svg", f"nosuch {SECRET}", f"plan dev --wrong={SECRET}"),
    # Where a name is cut, a password is not: the rest of it may be beyond the cut.
    f"plan http:/bob:PW{'x' * 90}@h",
    *("leftovers", "doctor", "park parked"),
)


@pytest.mark.slow
@pytest.mark.parametrize("words", WITH_SECRETS)
def test_no_message_repeats_a_password_or_token(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In arguments, and in the address of AWS, which is an unreachable one here."""
    for key, value in ENDPOINT.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("tandem.aws.session.ATTEMPTS", 1)
    for stack in ("dev", "timeslice"):
        (tmp_path / f"Pulumi.{stack}.yaml").write_bytes((ROOT / f"Pulumi.{stack}.yaml").read_bytes())
    park = '  tandem:park: {schedule: "0 20 * * MON-FRI", wake: "0 8 * * MON-FRI"}\n'
    (tmp_path / "Pulumi.parked.yaml").write_text((ROOT / "Pulumi.dev.yaml").read_text() + park)
    (tmp_path / "Pulumi.yaml").write_text("name: tandem\nruntime: python\n")
    ended = [call(*words.split(), cwd=tmp_path), call(*words.split(), "--json", cwd=tmp_path)]
    # A terminal also gets spinners.
    for code, said in [
        *((each.returncode, each.stdout + each.stderr) for each in ended),
        on_screen(*words.split(), cwd=tmp_path),
    ]:
        assert code != 0
        assert "PW" not in said
        if "PW" not in words:
            assert "http://…@127.0.0.1:1/?…" in said
