"""The output of `tandem plan` for an accepted stack: one screen, in any terminal and any encoding."""

import re
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import yaml

from sandbox.graph import Graph
from stacks.stack_file.judge import judge_file
from tandem import terminal
from tests import command, several_pools
from tests.command import ROOT, call, on_screen
from tests.descriptions import OWN_FILE
from tests.shipped import STACKS

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@cache
def shown(stack: str, columns: int = 80, *more: str) -> str:
    """The screen of a terminal, without the preceding spinner."""
    code, screen = on_screen("plan", stack, *more, columns=columns)
    assert code == 0
    return screen.rpartition("\x1b[2K")[2]


@cache
def lines(stack: str, columns: int = 80, *more: str) -> list[str]:
    """The same without colours."""
    return ANSI.sub("", shown(stack, columns, *more)).rstrip("\n").split("\n")


def words_with(folder: Path, stack: str, sections: Mapping[str, object]) -> str:
    """The screen of a shipped stack with these sections, as one line."""
    values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    values["config"] |= {f"tandem:{name}": section for name, section in sections.items()}
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    # The resources are those of the shipped stack unless the test is about them: each program takes 0.1 s.
    shipped = mock.patch.object(command, "graph_of", return_value=shipped_graph(stack))
    with nullcontext() if "cluster" in sections else shipped:
        return " ".join(" ".join(lines(str(file))).split())


@cache
def shipped_graph(stack: str) -> Graph:
    return command.graph_of(judge_file(ROOT / f"Pulumi.{stack}.yaml").plan())


def before(file: Path, word: str) -> str:
    """The line of the screen above the one that begins with that word."""
    found = lines(str(file))
    return found[next(at for at, line in enumerate(found) if line.startswith(word)) - 1]


@pytest.fixture
def several(tmp_path: Path) -> str:
    file = tmp_path / "Pulumi.several.yaml"
    file.write_text(several_pools.stack_file())
    return str(file)


@pytest.mark.parametrize("columns", range(60, 111, 5))
def test_the_time_until_the_stack_is_ready_stays_in_one_line(tmp_path: Path, columns: int) -> None:
    file = tmp_path / "Pulumi.nights.yaml"
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    file.write_text(
        f'{text}\n  tandem:park: {{schedule: "0 20 * * MON-FRI", wake: "0 8 * * MON-FRI"}}\n', encoding="utf-8"
    )
    assert any(re.search(r"ready in about \d+ minutes$", one) for one in lines(str(file), columns)[:6])


def test_a_stack_with_limits_per_model_shows_each_limit_its_use_its_rest_and_the_threads(tmp_path: Path) -> None:
    """A T4 has 14,912 MiB for CUDA, and an MPS server took 66 at most (docs/explanation/gpu-memory.md)."""
    values = yaml.safe_load((ROOT / "Pulumi.mps.yaml").read_text(encoding="utf-8"))
    large = {"name": "qwen2.5:14b", "share": {"memory-gib": 10, "compute-percent": 60}}
    own = {"tandem:sharing": {"mode": "mps", "limits": "per-model"}, "tandem:models": [large, {"name": "qwen2.5:3b"}]}
    file = tmp_path / "Pulumi.sizes.yaml"
    file.write_text(yaml.safe_dump({"config": {**values["config"], **own}}), encoding="utf-8")
    first = lines(str(file))
    assert len(first) <= 24
    assert max(map(len, first)) <= 80
    words = " ".join(" ".join(first).split())
    assert "spot), MPS with limits per model" in words
    large_needs, small_needs = re.findall(r"qwen2.5:\w+ +([\d.]+) of (?:10.0|4.5) ", words)
    assert 8.4 < float(large_needs) < 10  # its weights have 8.4 GiB: Ollama's library
    details = " ".join(" ".join(lines(str(file), 80, "-v")).split())
    assert "of which CUDA can use 14,912; the MPS daemon takes 66; 2 shares per GPU" in details
    row = r"reserves ([\d,]+) of its limit of ([\d,]+), ([\d,]+) left: .*?; context 4,096, slots 1; ([^.]*?)"
    limits = re.findall(rf"{row} (?=qwen|A limit)", details)
    # 14,846 - 10,240 = 4,606: the model without `memory-gib` gets the rest.
    assert [(limit, threads) for _, limit, _, threads in limits] == [
        ("10,240", "at most 60 % of the threads"),
        ("4,606", "all threads"),
    ]
    for used, limit, left, _ in limits:
        assert int(used.replace(",", "")) + int(left.replace(",", "")) == int(limit.replace(",", ""))
    assert f"{int(limits[1][0].replace(',', '')) / 1024:.1f}" == small_needs
    report = call("plan", str(file), "--json").json
    assert [(model["share_mib"], model["threads_percent"]) for model in report["models"]] == [(10240, 60), (4606, 100)]
    [shares] = report["pools"][0]["shares"]
    assert (shares["own_limits"], shares["enforced"], shares["memory_mib"]) == (True, True, None)
    [equal] = call("plan", "mps", "--json").json["pools"][0]["shares"]
    assert (equal["own_limits"], equal["memory_mib"]) == (False, 7680)


def test_importance_and_the_worst_case_of_every_spill_are_shown_if_the_file_has_them(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "rank-models.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(config:\n.*?)```", guide, flags=re.DOTALL)
    file = tmp_path / "Pulumi.ranked.yaml"
    file.write_text(text)
    assert before(file, "Importance") == ""
    found = " ".join(" ".join(lines(str(file))).split())
    assert "Importance high: llama3.1:8b; normal: llama2:7b; low: qwen2.5:3b " in found
    # A model of 7 billion weights is the larger neighbour on `rest`: 5.8 + 4.8 GiB on a T4.
    assert (
        "Spill to steady: qwen2.5:3b (at most 8.2 of 22.0 GiB on a GPU); to rest: llama3.1:8b (at most 10.6 of" in found
    )
    assert not any("Importance" in line or "Spill" in line for line in lines("timeslice"))
    parked = tmp_path / "Pulumi.parked.yaml"
    parked.write_text(text.replace("capacity: spot}", "capacity: spot, desired: 0}"))
    assert "; to rest, now parked: llama3.1:8b" in " ".join(" ".join(lines(str(parked))).split())


@pytest.mark.parametrize(
    ("types", "said"),
    [
        # The Spot Advisor of 2025-06-28, us-east-1: 15–20 % of g4dn.xlarge, >20 % of g4dn.2xlarge; it has no g7e.
        (["g4dn.xlarge"], "Reclaimed 15–20 % of instances per month (2025-06); each costs about 8 min "),
        (["g4dn.xlarge", "g4dn.2xlarge"], "Reclaimed >15 % of instances per month (2025-06); each"),
        (["g7e.2xlarge"], "spot, reclaim rate unknown disks"),
    ],
)
def test_a_reclaim_has_its_rate_and_its_minutes(tmp_path: Path, types: list[str], said: str) -> None:
    spot = {"instance-types": types}
    assert said in words_with(tmp_path, "dev", {"budget": {}, "gpu-nodes": spot})
    assert "eclaim" not in words_with(
        tmp_path, "timeslice", {"budget": {}, "gpu-nodes": {**spot, "capacity": "on-demand"}}
    )


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"max-usd-per-month": 1234.4}, r"budget \$566 of \$1,234 per month \w"),
        ({"max-usd-per-hour": 1.5}, r"budget up to \$1\.4\d\d of \$1\.50 per hour \w"),
        (
            {"max-usd-per-hour": 2, "max-usd-per-month": 700},
            r"budget \$566 of \$700 per month; up to \$1\.4\d\d of \$2\.00 per hour",
        ),
    ],
)
def test_below_the_total_stands_the_budget(tmp_path: Path, budget: dict[str, float], said: str) -> None:
    types = {"instance-types": ["g4dn.xlarge"], "capacity": "on-demand"}
    # $0.775 × 730 hours. New nodes beside the old ones: $0.526 for a g4dn.xlarge on demand, and four t3.medium, $0.166.
    assert re.search(said, words_with(tmp_path, "timeslice", {"budget": budget, "gpu-nodes": types}))
    other = tmp_path / "other"  # the screen of a file is kept
    other.mkdir()
    assert " budget " not in words_with(other, "timeslice", {"budget": {}, "gpu-nodes": types})


@pytest.mark.parametrize("stack", STACKS)
def test_every_shipped_stack_fits_one_screen_of_80_columns_and_24_lines(stack: str) -> None:
    found = lines(stack)
    assert len(found) <= 24
    assert max(map(len, found)) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("stack", [*STACKS, "several"])
def test_a_plan_with_all_details_is_as_narrow_as_the_terminal_and_loses_no_number(stack: str, several: str) -> None:
    file = several if stack == "several" else stack
    # Not kept: the file of `several` has another path in each test.
    found, wide = (lines.__wrapped__(file, columns, "--verbose", "--resources") for columns in (60, 500))
    assert max(map(len, found)) <= 60, max(found, key=len)
    assert "…" not in "\n".join(found)
    # Where they have no room, the ranges of the last column are left out, or all of it.
    last = [line.split("  ")[-1] for line in wide if re.search(r"\d\)? s$|500-token prompt$", line)]
    left_out = Counter(numbers(wide)) - Counter(numbers(found))
    assert left_out <= Counter(numbers(last))
    assert Counter(numbers(found)) <= Counter(numbers(wide))


def numbers(found: list[str]) -> list[str]:
    return re.findall(r"\d[\d.,]*\d|\d", " ".join(found))


def test_startup_is_reported_in_its_natural_order_and_adds_up() -> None:
    [printed] = re.findall(r"Startup  (.*?)\n\d+ resources", "\n".join(lines("timeslice")), flags=re.DOTALL)
    stages = [re.fullmatch(r"(.*) ([\d.]+) min", stage) for stage in " ".join(printed.split()).split(" → ")]
    names, minutes = zip(*[(stage[1], float(stage[2])) for stage in stages if stage], strict=True)
    # mistral:7b is 4.1 GB in Ollama's library, which is 3.8 GiB of 10^9 bytes each; its layers are 4,113,301,824 bytes.
    assert names == ("network", "control plane", "system nodes", "device plugin", "proof", "mistral:7b (4.1 GiB)")
    ready = call("plan", "timeslice", "--json").json["time_to_ready"]["minutes"]
    assert sum(minutes) == pytest.approx(ready, abs=0.3)
    # A line ends between two steps, and the details name the same steps.
    assert all(re.fullmatch(r"(→ )?.* min", line.strip()) for line in printed.splitlines())
    details = "\n".join(lines("timeslice", 80, "--verbose")).partition("step by step\n")[2]
    assert tuple(dict.fromkeys(re.findall(r"[\d.]+ min  (.+)", details))) == names
    assert f"ready in about {ready:.0f} minutes" in "\n".join(lines("timeslice"))


@pytest.mark.parametrize(("stack", "bars"), [("dev", 1), ("exclusive", 2), ("mig", 1), ("karpenter", 1)])
def test_a_gpus_bar_is_as_full_as_the_gpu(stack: str, bars: int) -> None:
    found = [line for line in lines(stack) if "█" in line]
    assert len(found) == bars
    for line in found:
        filled = line.count("█") + line.count("▓")
        used, total = (float(number) for number in re.findall(r"([\d.]+) of ([\d.]+) GiB", line)[0])
        assert filled + line.count("░") == 24
        assert filled / 24 == pytest.approx(used / total, abs=1 / 24)
    models = call("plan", stack, "--json").json["models"]
    needed = sum(model["needs_mib"] + model["margin_mib"] for model in models) / 1024
    assert sum(float(re.findall(r"([\d.]+) of", line)[0]) for line in found) == pytest.approx(needed, abs=0.1 * bars)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stack", "said"),
    # Which models share a GPU is known for slices alone.
    [("timeslice", "fullest of 2 GPUs █"), ("mig", "2 GPUs █")],
)
def test_several_gpus_have_one_bar(tmp_path: Path, stack: str, said: str) -> None:
    values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
    nodes = {**values["tandem:gpu-nodes"], "desired": 2, "max": 2}
    assert said in words_with(tmp_path, stack, {"gpu-nodes": nodes, "budget": {}})


def test_the_details_say_that_a_size_is_derived_and_how_much_larger_it_may_be(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.large.yaml"
    dev = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    file.write_text(dev.replace("llama2:7b", "llama3.1:8b-instruct-q8_0"), encoding="utf-8")
    done = call("plan", str(file), "--verbose")
    # 7,605 MiB: the file of llama3.1:8b in Q8_0 on Hugging Face, 8,540,775,840 bytes, without its header and embedding.
    assert "weights 7,605 (derived; up to 81 more), KV cache" in " ".join(done.stdout.split())
    assert "derived" not in call("plan", "dev", "--verbose").stdout


def test_one_model_is_compared_with_no_other(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.one.yaml"
    stack = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    del stack["config"]["tandem:models"][1:]
    file.write_text(yaml.safe_dump(stack))
    done = call("plan", str(file))
    assert done.returncode == 0, done.stdout
    assert re.search(r"total +\$\d\.\d{3}\n", done.stdout)
    assert "with a GPU for each model" not in done.stdout


def test_a_comparison_refuses_what_it_does_not_show() -> None:
    for flags, named in {
        ("-v",): "--verbose",
        ("--resources", "--format=github"): "--resources and --format",
        ("--running", "--graph", "x.svg"): "--running and --graph",
        ("--outputs", "x.json"): "--outputs",
        ("--compare", "mps"): "--compare",
    }.items():
        done = call("plan", "dev", "mps", *flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f" Leave out {named}.\n")


def test_a_file_that_is_no_stack_file_is_named_as_such() -> None:
    done = call("plan", "README.md")
    assert done.returncode == 2
    assert "README.md is not a stack file" in done.stderr


def test_prices_that_may_have_changed_are_marked_in_the_headline() -> None:
    assert re.search(
        r"\x1b\[33m  GPU prices of us-east-1, 2026-06-18, \d+ days ago; newer: --live-prices", shown("dev")
    )


@pytest.mark.parametrize(("cold_requests", "answer"), [("wait", "waits"), ("refuse", "gets status 503 for")])
def test_models_that_scale_to_zero_say_how_long_the_next_request_waits(
    tmp_path: Path, cold_requests: str, answer: str
) -> None:
    zero = {"enabled": True, "idle-minutes": 25, "cold-requests": cold_requests}
    text = words_with(tmp_path, "karpenter", {"scale-to-zero": zero})
    assert f"Idle a model stops after 25 minutes without requests; the next request {answer} about 7 minutes" in text
    assert "minutes, sometimes 10 " in text
    assert "Startup" not in text
    assert "Idle" not in shown("karpenter")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"ui": {"enabled": True, "admin-email": "ops@example.com"}}, "Pages Open WebUI, reachable"),
        ({"monitoring": {"store": "builtin"}}, "Pages Grafana, reachable"),
        (
            {"ui": {"enabled": True, "admin-email": "ops@example.com"}, "monitoring": {"store": "builtin"}},
            "Pages Open WebUI and Grafana, reachable",
        ),
    ],
)
def test_pages_inside_the_cluster_are_named(tmp_path: Path, sections: dict[str, object], said: str) -> None:
    large = {"nat": "single", "public-access-cidrs": ["0.0.0.0/0"], "system-nodes": {"instance-types": ["t3.large"]}}
    assert said in words_with(tmp_path, "timeslice", {"cluster": large, **sections})
    assert "Pages" not in shown("timeslice")


def test_an_existing_cluster_is_named_and_costs_nothing(tmp_path: Path) -> None:
    text = words_with(tmp_path, "timeslice", {"cluster": {"existing": {"name": "platform"}}})
    assert "cluster platform $0.000 yours, not counted" in text
    assert "Cluster platform stays as it is. Whether it suits, only `tandem doctor timeslice` and `up` can tell" in text
    assert "control plane" not in text
    assert "system nodes" not in text
    assert "warning" not in text


def test_a_vpc_that_exists_costs_nothing_here_and_the_screen_says_what_a_plan_cannot_know(tmp_path: Path) -> None:
    vpc = {"id": "vpc-0a1b2c3d", "subnets": ["subnet-0000000a", "subnet-0000000b"]}
    text = words_with(tmp_path, "timeslice", {"cluster": {"public-access-cidrs": ["0.0.0.0/0"], "vpc": vpc}})
    assert "Network your VPC vpc-0a1b2c3d, which only `doctor` and `up` can check" in text
    assert "NAT" not in text
    assert "NAT" in shown("timeslice")


@pytest.mark.parametrize(
    ("alert", "said"),
    [
        (
            {"max-usd": 1000, "emails": ["ops@example.com"]},
            "$1,000.00 per month for the AWS account, and when AWS forecasts more than 100 %.",
        ),
        (
            {"max-usd": 12.5, "emails": ["ops@example.com"], "period": "daily", "scope": "stack"},
            "$12.50 per day for this stack. AWS reports",
        ),
    ],
)
def test_an_alert_says_its_limit_and_how_late_it_is(tmp_path: Path, alert: dict[str, object], said: str) -> None:
    text = words_with(tmp_path, "dev", {"budget": {"alert": alert}})
    assert f"Alert e-mail at 80 % and 100 % of {said}" in text
    assert "AWS reports costs up to a day late. The e-mail warns; it stops nothing." in text
    assert "ops@example.com" not in text


def test_long_work_reports_progress_in_a_pipe_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.01)
    said = ""
    with terminal.status("Planning dev"):
        while said.count("\n") < 2:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert re.match(r"Planning dev … \(0 s so far\)\nPlanning dev … \(0 s so far\)\n", said)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


OWN_MODEL = {"gguf": OWN_FILE, "id": "own"}


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("llama2:7b", "registry.ollama.ai"),
        ("me/llama2:7b", "registry.ollama.ai"),
        ("models.example.com/library/llama2:7b", "models.example.com and registry.ollama.ai"),
    ],
)
def test_a_registry_has_a_line_that_says_where_models_come_from(tmp_path: Path, name: str, hosts: str) -> None:
    first = {"name": name, "context": 2048, **({} if name == "llama2:7b" else OWN_MODEL)}
    sections = {"registry": "registry.example.com/tandem", "models": [first, {"name": "mistral:7b", "context": 2048}]}
    said = words_with(tmp_path, "timeslice", sections)
    assert f"Registry images and charts from registry.example.com/tandem; models from {hosts} Startup" in said
    assert before(tmp_path / "Pulumi.timeslice.yaml", "Registry") == ""


@pytest.mark.parametrize(
    ("registry", "first_start"),
    [
        (None, "First start: 10.8 GiB from the internet, $0.49 for NAT."),
        (
            "registry.example.com/tandem",
            "First start: 10.8 GiB from the internet, $0.49 for NAT. The way to your registry is unknown: its images "
            "count as if from the internet.",
        ),
        # Only the models: 8,199,618,061 bytes at $0.045 per GB.
        (
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/tandem",
            "First start: 7.6 GiB from the internet, $0.34 for NAT.",
        ),
    ],
)
def test_details_count_images_that_come_through_nat(tmp_path: Path, registry: str | None, first_start: str) -> None:
    words_with(tmp_path, "timeslice", {"registry": registry} if registry else {})
    details = call("plan", str(tmp_path / "Pulumi.timeslice.yaml"), "-v").stdout
    assert f"{first_start} Spot, g4dn.xlarge:" in " ".join(details.split())
