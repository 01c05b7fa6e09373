"""What commands print of what they found in an account, a cluster or a benchmark. What they found is written here."""

import datetime
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sharing.cost.quotas import Need, Quota
from tandem.aws.quota import Answer, Check, as_dict
from tandem.aws.resources import Owner, Resource
from tandem.aws.session import Account
from tandem.bench import screen as bench_screen
from tandem.bench.run import Case
from tandem.bench_results.summary import summary
from tandem.chat.screen import Screen as Chat
from tandem.chat.talk import Speaker, Turn
from tandem.deployed.ollama import Memory, Piece
from tandem.doctor import screen as doctor
from tandem.doctor.case import Case as Examined
from tandem.doctor.checks import CHECKS, Answered
from tandem.doctor.finding import ok, stops, unknown, warning
from tandem.leftovers import screen as leftovers_screen
from tandem.leftovers.deletion import Outcome
from tandem.leftovers.inventory import Inventory
from tandem.price_cache import Kept
from tandem.prices import screen as prices_screen
from tandem.quota import screen as quota_screen
from tandem.terminal import open_console
from tandem.verify import screen as verify
from tandem.verify.checks import Check as Looked
from tandem.verify.verify import Verdict
from tandem.watch import screen as watch
from tandem.watch.gpus import Gpu
from tandem.watch.watch import Look, ModelLook
from tests.tandem.json_lines import laid_out
from tests.tandem.results import SPILLED, failed, result, run, server, session, shared, steady, timed

LONG_URL = "https://docs.aws.amazon.com/cli/latest/userguide/cli-chap-welcome.html"
"""Longer than a column of the screen, and whole all the same."""
NOON = datetime.datetime(2026, 11, 22, 12, 0, 0, tzinfo=datetime.UTC)
HERE = cast(Account, SimpleNamespace(id="123456789012", region="us-east-1"))
OWNER = Owner(stack="dev", own_tags={}, cluster="tandem-dev", region="us-east-1", by_cluster=True)
VOLUME = Resource(
    kind="volumes", id="vol-0123456789abcdef0", tags={"Name": "models"}, detail="100 GiB gp3", usd_per_day=0.263
)
GPU = Resource(kind="instances", id="i-0123456789abcdef0", tags={}, detail="g4dn.xlarge, spot", usd_per_day=5.179)
POLICY = Resource(kind="IAM policies", id="arn:aws:iam::123456789012:policy/tandem-dev", tags={})
PRICELESS = Resource(
    kind="VPC endpoints", id="vpce-1", tags={}, detail="com.amazonaws.us-east-1.ecr.api", usd_per_day=None
)


def inventory(*resources: Resource, **unseen: str) -> Inventory:
    return Inventory(owner=OWNER, resources=resources, unseen=unseen)


def leftovers() -> None:
    leftovers_screen.show(inventory(GPU, VOLUME, POLICY), HERE, deleting=False)
    leftovers_screen.show(inventory(GPU, PRICELESS, volumes="AccessDenied: ec2:DescribeVolumes"), HERE, deleting=True)
    leftovers_screen.show(inventory(), HERE, deleting=False)
    leftovers_screen.show(
        replace(inventory(), owner=replace(OWNER, stack="the-stack-of-the-platform-team")), HERE, deleting=False
    )
    leftovers_screen.show(inventory(volumes="throttled"), HERE, deleting=False)
    outcomes = [
        Outcome(resource=GPU, what="deleted"),
        Outcome(resource=VOLUME, what="failed", why="VolumeInUse: attached to i-1"),
        Outcome(resource=POLICY, what="deleted"),
    ]
    for one in outcomes:
        leftovers_screen.outcome(one, to_stderr=False)
    leftovers_screen.counts(outcomes, to_stderr=False)


def quota(name: str, used: int, *needs: int, limit: float | None) -> Check:
    counted = Quota(name=name, service="ec2", code=f"L-{name}", title=f"Running {name} instances", unit="vCPUs")
    now, most, replacing = needs
    return Check(need=Need(quota=counted, now=now, most=most, replacing=replacing), limit=limit, used=used)


def quotas() -> None:
    checks = (
        quota("G", 4, 4, 8, 16, limit=2048.0),
        quota("P", 0, 4, 8, 16, limit=15.0),
        quota("VT", 0, 4, 8, 16, limit=7.0),
        quota("Standard", 1100, 4, 8, 16, limit=3.0),
        quota("P6", 0, 4, 8, 16, limit=None),
    )
    problem, doubt = "gpu-nodes: no zone sells g4dn.xlarge. Write others.", "P6 is not documented"
    quota_screen.show(Answer(checks=checks, problems=(problem,), warnings=(doubt,)), "dev", HERE)
    quota_screen.show(Answer(checks=checks[:1], problems=(), warnings=()), "dev", HERE)
    print(laid_out(as_dict(Answer(checks=checks, problems=(problem,), warnings=(doubt,)), "dev", HERE)))


def prices() -> None:
    on_demand = {"g4dn.xlarge": 0.526, "g6.12xlarge": 4.6016, "t3.medium": 0.0416, "m7i.large": 0.1008}
    spot = {
        "g4dn.xlarge": {"us-east-1a": 0.21, "us-east-1b": 0.19, "us-east-1c": 0.25},
        "g5.xlarge": {"us-east-1a": 0.4},
    }
    kept = Kept(region="us-east-1", read_at=NOON, on_demand=on_demand, spot=spot)
    for hours in (0, 0.99, 1, 47.4, 48, 100):
        print(prices_screen.age(NOON, NOON + datetime.timedelta(hours=hours)))
    prices_screen.show(kept, Path("kept.json"), NOON + datetime.timedelta(days=3))


def looked(about: str, what: str, held: bool | None, fix: str = "") -> Looked:
    return Looked(
        about=about, what=what, held=held, expected=f"{what} of the file", found=f"{what} of the node", fix=fix
    )


VERDICTS = (
    Verdict(
        stack="dev",
        cluster="abc.eks.amazonaws.com",
        checks=(
            looked("stack", "file", True, "No fix for what holds."),
            looked("pool gpu", "nodes", False, "Wait for a spot node."),
            looked("pool gpu", "shares", None),
            looked("model llama2-7b", "context", False),
            # Looked at last, and shown with the others of its pool.
            looked("pool gpu", "one pod too many waits", True),
        ),
        waited_s=3.14159,
    ),
    Verdict(stack="dev", cluster="abc", checks=(looked("stack", "file", True),), waited_s=0.0),
    Verdict(stack="dev", cluster="abc", checks=(looked("stack", "file", False),), waited_s=0.0),
)


def verdicts() -> None:
    for one in VERDICTS:
        verify.verdict(one)
        print(laid_out(one.as_dict()))


def model(id: str, **changes: Any) -> ModelLook:
    fields: dict[str, Any] = {
        "id": id, "tag": "llama2:7b", "pod": f"{id}-0", "node": "ip-10-0-0-1", "state": "ready", "ready": True,
        "restarts": 0, "trouble": "", "outside_mps": "", "memory": None, "tokens_per_s": None,
    }  # fmt: skip
    return ModelLook(**{**fields, **changes})


def memory(expires: datetime.datetime | str, size: int = 4 * 2**30, on_gpu: int = 3 * 2**30) -> Memory:
    return Memory(size=size, size_vram=on_gpu, context=4096, expires=str(expires))


def after(**time: float) -> datetime.datetime:
    return NOON + datetime.timedelta(**time)


LOADED = (
    model("soon", memory=memory(after(seconds=119.9)), tokens_per_s=31.25),
    model("later", memory=memory(after(seconds=120))),
    model("over", memory=memory(after(seconds=-5)), tokens_per_s=0.0),
    model("kept", memory=memory(after(days=50 * 365 + 1))),
    model("long", memory=memory(after(days=50 * 365))),
    model("tomorrow", memory=memory(after(hours=20))),
    model("weekend", memory=memory(after(days=3))),
    model("wrapped", memory=memory("1754-08-30T22:43:41Z")),
    model("never", memory=memory("2318-03-04T05:06:07.123456789Z")),
    model("unknown", memory=memory("")),
    model("naive", memory=memory("2026-11-22T12:00:30")),
    model("unreadable", memory=memory("soon", size=0, on_gpu=0)),
)
IDLE = (
    model("idle"),
    model("broken", trouble="connection refused"),
    model("waits", ready=False, state="Pending", pod=""),
)
GPUS = (
    Gpu(
        node="ip-1",
        uuid="GPU-1",
        name="Tesla T4",
        used_mib=9_876.4,
        total_mib=15_360.0,
        busy_percent=97.6,
    ),
    Gpu(node="ip-2", uuid="GPU-2", name="A100", used_mib=0.0, total_mib=None, busy_percent=None),
    Gpu(node="ip-3", uuid="GPU-3", name="L4", used_mib=None, total_mib=None, busy_percent=0.0),
)
LOOKS = (
    Look(at=NOON, stack="dev", models=LOADED, gpus=GPUS, trouble=()),
    Look(at=NOON, stack="dev", models=IDLE, gpus=(), trouble=("no GPU node",), events=("idle: started again",)),
    Look(at=NOON, stack="dev", models=(LOADED[1],), gpus=GPUS[:1], trouble=()),
)


def look() -> None:
    console = open_console()
    for one in LOOKS:
        console.print(watch.render(one, ["12:00:00 pod moved"], watch.NARROW))
    for one in LOOKS[1:]:
        console.print(watch.render(one, ["12:00:00 pod moved"], watch.NARROW - 1))
        print(laid_out(one.as_dict()))
    # On a terminal each look is in the memory of the one before; six events are one too many.
    watch.live([replace(LOOKS[1], events=tuple(f"event {number}" for number in range(6))), LOOKS[2]])


def runs() -> None:
    """For pipes alone: in a terminal it is a bar that moves by the clock."""
    rows = [*steady("a", 50, 10), failed("a"), *steady("b", 70, 20)]
    with bench_screen.Progress(3, quiet=False) as shown:
        for case, ended in (
            (Case(1, ("a",), 64, "closed", 4.0), run(["a"], steady("a", 50, 10))),
            (Case(1, ("a", "b"), 64, "open", 0.5), run(["a", "b"], rows, memory=SPILLED)),
        ):
            shown.begins(case)
            shown.ended(ended)
    with bench_screen.Progress(1, quiet=True) as shown:
        shown.begins(Case(1, ("a",), 64, "closed", 4.0))
        shown.ended(run(["a"], rows))


def bench() -> None:
    spilled = run(["a"], steady("a", 50, 10), repeat=4, memory=SPILLED)
    printed = shared("both", (10.0, 20.0), (30.0, 25.0), usd_per_hour=0.5754)
    one = replace(printed, runs=[*printed.runs, spilled])
    alone = result("alone", [run(["a"], [failed("a")])], sessions=[session(servers=[server("a", "llama2:7b")])])
    twice = [replace(run, level=8.0) for run in shared("", (5.0, 10.0), (1.0, 1.0)).runs if len(run.endpoints) == 1]
    bench_screen.show(summary(timed(replace(printed, runs=[*printed.runs, *twice]), 20.0)))
    for each in (one, alone):
        bench_screen.show(summary(each))
        print(laid_out(summary(each).as_dict()))


def chat() -> None:
    screen = Chat(open_console())
    speakers = [cast(Speaker, SimpleNamespace(label=label)) for label in ("llama2:7b [GPU 0]", "mistral:7b")]
    long = "Donaudampfschifffahrtsgesellschaftskapitän"
    pieces = [
        [Piece(thinking="hm"), Piece(thinking="so"), Piece(text="  \n"), Piece(text=" Hello, "), Piece(text="wor")],
        [Piece(text=f"{long} " * 3), Piece(text="one\ntwo \n\n"), Piece(text="\x1b[31mred ")],
        [Piece(text="words " * 30), Piece(text="tail", done_reason="length")],
    ]
    for number, some in enumerate(pieces, start=1):
        turn = Turn(number, speakers[number % 2])
        for piece in some:
            turn.text += piece.text
            screen.add(turn, piece)
    screen.end_line()
    screen.end_line()


def findings() -> None:
    stack: Any = SimpleNamespace(name="dev")
    case = Examined(project=Path(), region="us-east-1", profile=None, now=NOON)
    case.__dict__["access"] = SimpleNamespace(account=HERE)
    found = [
        ok("3.12"),
        stops("3.100 is too old", "Install 3.250 or later: https://www.pulumi.com/docs/install/"),
        warning(f"no answer from {LONG_URL} in time.", f"See {LONG_URL}."),
        stops("are there no credentials?", "Run `aws sso login`."),
        unknown("nobody answers", "Run `aws sso login`."),
        unknown("not asked"),
        warning(
            "another, whose text is so long that it needs a second line",
            "Write a longer fix that has to be folded in a terminal of eighty columns, as this one is.",
        ),
        unknown("not asked"),
    ]
    answers = [Answered(check, finding) for check, finding in zip(CHECKS, found, strict=False)]
    doctor.show(case, answers)
    for some in (answers[:1], answers[:1] + answers[2:3], answers[5:6], answers[1:2]):
        doctor.show(replace(case, stack=stack), some)
    print(laid_out(doctor.as_dict(case, answers)))


SHOWN = (leftovers, quotas, prices, verdicts, look, runs, bench, chat, findings)
