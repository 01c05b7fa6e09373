"""`tandem plan --graph`: the meaning of boxes and arrows, and the syntax of both kinds of file."""

import json
import os
import shutil
import subprocess
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from sandbox.graph import Graph, Resource
from sandbox.preview.timeline import longest_path
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import Planned, run
from tandem.dry_run.startup import Startup
from tandem.plan import drawing, mermaid
from tandem.plan.diagram import Diagram, make_diagram
from tandem.plan.graph_file import write_graph
from tandem.terminal import CallError
from tests.command import call
from tests.conftest import Golden

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
WORST = 'x"];a-->b\n%%{init}%%`<script>#quot;]}&|\\é'
STACK = "pulumi:pulumi:Stack"


def resource(name: str, parent: str, *waits_for: str, type: str = "aws:x/role:Role") -> Resource:
    custom = not type.startswith(("tandem:", STACK))
    return Resource(urn=name, name=name, type=type, parent=parent, custom=custom, dependencies=waits_for, outputs={})


def planned(minutes: dict[str, float], *resources: Resource) -> Planned:
    top = resource("top", "", type=STACK)
    graph = Graph({one.urn: one for one in sorted([top, *resources], key=lambda one: one.urn)})
    path = longest_path(graph, lambda one: minutes.get(one.urn, 0.0))
    startup = Startup(minutes=path[-1].end, plus_minus=1, path=tuple(path))
    return Planned(graph, startup, starts_models=True)


def shown(diagram: Diagram) -> tuple[dict[str, list[str]], set[tuple[str, str]], list[tuple[str, str]]]:
    """The groups, the thin edges and the path, by name."""
    names = {box.id: "+".join(box.names) for group in diagram.groups for box in group.boxes}
    names |= {group.id: f"[{group.name}]" for group in diagram.groups}
    groups = {group.name: [names[box.id] for box in group.boxes] for group in diagram.groups}
    thin = {(names[edge.before], names[edge.after]) for edge in diagram.edges if not edge.on_path}
    steps = {edge.before: edge.after for edge in diagram.edges if edge.on_path}
    path = [
        (names[one], names[other]) for one, other in sorted(steps.items(), key=lambda step: step[0] in steps.values())
    ]
    return groups, thin, path


def test_edges_that_others_imply_are_left_out_and_no_box_waits_for_itself() -> None:
    made = planned(
        {"vpc": 1, "cluster": 9, "job": 2},
        resource("net", "top", type="tandem:index:Net"),
        resource("run", "top", "net", type="tandem:index:Run"),
        resource("vpc", "net", type="aws:ec2/vpc:Vpc"),
        resource("role1", "net"),
        resource("role2", "net"),
        resource("cluster", "net", "vpc", "role1", "role2", type="aws:eks/cluster:Cluster"),
        resource("role3", "net", "cluster"),
        resource("provider", "net", "cluster", type="pulumi:providers:kubernetes"),
        resource("job", "run", "provider", "vpc", type="kubernetes:batch/v1:Job"),
        resource("space", "run", "provider", "cluster", type="kubernetes:core/v1:Namespace"),
    )
    groups, thin, path = shown(make_diagram(made, "dev"))
    # In one box with the other roles, role3 would wait for the cluster, and the cluster for that box.
    assert groups == {"net": ["vpc", "role1", "role2", "cluster", "role3"], "run": ["job", "space"]}
    assert path == [("vpc", "cluster"), ("cluster", "job")]
    assert thin == {("role1", "cluster"), ("role2", "cluster"), ("cluster", "role3")}


def test_resources_of_a_type_are_one_box_unless_one_is_a_step_of_the_path() -> None:
    made = planned(
        {"a": 1},
        resource("net", "top", type="tandem:index:Net"),
        *(resource(name, "net", type="aws:x/a:A") for name in ("a", "b")),
        # It waits for another one in its box.
        resource("c", "net", "b", type="aws:x/a:A"),
        resource("d", "net", "b", type="aws:x/d:D"),
        # In another component.
        resource("run", "top", type="tandem:index:Run"),
        resource("f", "run", type="aws:x/a:A"),
        # Of no component.
        resource("e", "top", type="aws:x/e:E"),
    )
    groups, thin, _ = shown(make_diagram(made, "dev"))
    assert groups == {"net": ["a", "b+c", "d"], "run": ["f"], "top": ["e"]}
    assert thin == {("b+c", "d")}


def test_the_title_counts_what_the_plan_counts_and_what_is_drawn() -> None:
    made = planned(
        {"a": 1},
        resource("net", "top", type="tandem:index:Net"),
        resource("provider", "net", type="pulumi:providers:aws"),
        resource("a", "net", type="aws:x/a:A"),
        resource("b", "net", type="aws:x/b:B"),
    )
    # With the stack, the component and the provider.
    assert make_diagram(made, "dev").title == "dev: 5 resources (2 drawn in 1 component), ready in about 1 minute"


def test_a_resource_that_waits_for_a_component_waits_for_its_resources() -> None:
    made = planned(
        {"a": 1, "b": 1},
        resource("one", "top", type="tandem:index:One"),
        resource("two", "top", "a", type="tandem:index:Two"),
        resource("a", "one", type="aws:x/a:A"),
        resource("b", "two", type="aws:x/b:B"),
        resource("c", "two", type="aws:x/c:C"),
    )
    groups, thin, path = shown(make_diagram(made, "dev"))
    assert list(groups) == ["one", "two"]
    assert path == [("a", "b")]
    assert thin == set()  # the path already shows that everything in `two` comes after `a`


def after_a_and_z(*waits: str) -> Planned:
    """Component `one` has `a` and then `z`. In `two`, `b` waits for `a`, and `c` for these."""
    return planned(
        {"a": 1, "z": 5},
        resource("one", "top", type="tandem:index:One"),
        resource("two", "top", type="tandem:index:Two"),
        resource("a", "one", type="aws:x/a:A"),
        resource("z", "one", "a", type="aws:x/z:Z"),
        resource("b", "two", "a", type="aws:x/b:B"),
        resource("c", "two", *waits, type="aws:x/c:C"),
    )


def test_an_edge_into_another_component_ends_at_the_component() -> None:
    _, thin, path = shown(make_diagram(after_a_and_z("a", "b"), "dev"))
    assert path == [("a", "z")]
    assert thin == {("a", "[two]"), ("b", "c")}


def test_a_component_waits_only_for_the_last_of_its_predecessors() -> None:
    _, thin, _ = shown(make_diagram(after_a_and_z("z"), "dev"))
    assert thin == {("z", "[two]")}


@pytest.fixture(scope="module", params=["dev", "karpenter", "mig-mixed"])
def diagram(request: pytest.FixtureRequest) -> Diagram:
    plan = judge_file(ROOT / f"Pulumi.{request.param}.yaml").plan()
    return make_diagram(run(plan), plan.stack)


@pytest.mark.slow
def test_a_drawing_has_every_box_inside_its_component_and_none_on_another(diagram: Diagram) -> None:
    root = ElementTree.fromstring(drawing.draw(diagram))
    boxes = [frame(group.find(f"{SVG}rect")) for group in root.iter(f"{SVG}g")]
    frames = [frame(rect) for rect in root.findall(f"{SVG}rect") if rect.get("class") == "fill-band line-rule"]
    assert len(boxes) == sum(len(group.boxes) for group in diagram.groups)
    assert len(frames) == len(diagram.groups)
    assert not [pair for pair in [*combinations(boxes, 2), *combinations(frames, 2)] if overlap(*pair)]
    for x, y, right, bottom in boxes:
        assert any(x > a and y > b and right < c and bottom < d for a, b, c, d in frames)
    assert max(bottom for *_, bottom in frames) < float(root.get("height", ""))


def frame(rect: ElementTree.Element | None) -> tuple[float, float, float, float]:
    assert rect is not None
    x, y, width, height = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_an_edge_leads_down_and_the_path_in_one_column(diagram: Diagram) -> None:
    places = {id: place for group, top in zip(diagram.groups, range(0, 9999, 999), strict=False) for id, place in
              drawing._place(group, top)}  # fmt: skip
    assert all(places[edge.before].y < places[edge.after].y for edge in diagram.edges)
    on_path = [box for group in diagram.groups for box in group.boxes if box.on_path]
    assert len({places[box.id].x for box in on_path}) == 1
    assert len([edge for edge in diagram.edges if edge.on_path]) == len(on_path) - 1
    assert all(one.depth < other.depth for one, other in pairwise(sorted(on_path, key=lambda box: box.depth)))


def test_a_small_graph_is_its_golden(golden: Golden) -> None:
    made = make_diagram(after_a_and_z("a", "b"), "dev")
    golden("graphs/small.svg", drawing.draw(made))
    golden("graphs/small.mmd", mermaid.flowchart(made))


def test_the_command_writes_the_file_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "dev.mmd"
    ended = call("plan", "dev", "--graph", str(path))
    assert ended.returncode == 0
    assert f"Wrote {path}\n" in ended.stdout
    assert path.read_text(encoding="utf-8").startswith("flowchart TB\naccTitle: dev")


def test_markdown_has_the_same_graph_between_title_and_description(diagram: Diagram) -> None:
    title, graph, description = mermaid.document(diagram).split("\n\n")
    assert (title, description) == (f"# {diagram.title}", f"{diagram.description}\n")
    assert graph == f"```mermaid\n{mermaid.flowchart(diagram)}```"


def test_json_stays_json_and_a_refused_stack_has_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "dev.SVG"
    assert call("plan", "dev", "--json", "--graph", str(path)).json["stack"] == "dev"
    assert path.read_text(encoding="utf-8").startswith("<svg")
    bad = tmp_path / "Pulumi.bad.yaml"
    bad.write_text("config:\n  tandem:sharing: {mode: wrong}\n")
    assert call("plan", str(bad), "--graph", str(tmp_path / "bad.svg")).returncode == 1
    assert not (tmp_path / "bad.svg").exists()


@pytest.mark.parametrize("name", ["dev.png", "dev", "nowhere/dev.svg"])
def test_a_file_that_cannot_be_written_or_has_no_known_ending_is_a_usage_error(name: str, tmp_path: Path) -> None:
    ended = call("plan", "dev", "--graph", str(tmp_path / name))
    assert ended.returncode == 2
    assert str(tmp_path / name) in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_cannot_be_written_is_an_error_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "dev.svg").mkdir()
    with pytest.raises(CallError, match=r"^cannot write .*dev\.svg: Is a directory\. Choose another file"):
        write_graph(tmp_path / "dev.svg", planned({"a": 1}, resource("a", "top")), "dev")


def test_a_long_name_is_cut_where_its_box_ends() -> None:
    """A letter takes 0.6 of 14 pixels at most, and a box of 214 pixels has a margin of 8 on each side."""
    role = resource("y" * 40, "net", type=f"aws:x/role:{'R' * 40}")
    fits = resource("z" * 23, "net", type="aws:x/a:A")  # 198 of 8.4 pixels
    net = resource("net", "top", type=f"tandem:index:{'N' * 90}")
    drawn = drawing.draw(make_diagram(planned({role.urn: 12}, net, role, fits), "dev"))
    assert f">{'y' * 22}…<" in drawn
    assert f">{fits.name}<" in drawn
    # The minutes, `12.0`, take the room of four letters.
    assert f">x {'R' * 16}…<" in drawn
    # The title of a component begins above the second of four columns, and ends where the last one does.
    assert f">{'N' * 80}…<" in drawn


def hostile() -> Diagram:
    made = planned(
        {"a": 1, "b": 1},
        resource(WORST, "top", type="tandem:index:One"),
        resource("a", WORST, type="aws:x/a:A"),
        resource(WORST + "2", WORST, "a", type="aws:x/b:B"),
    )
    return make_diagram(made, WORST)


def test_names_from_outside_stay_text() -> None:
    ElementTree.fromstring(drawing.draw(hostile()))
    text = mermaid.flowchart(hostile())
    assert not set("`<>{}|\\&") & set(text.replace("<br>", "").replace("-->", "").replace("==>", ""))
    tokens = MarkdownIt("commonmark").parse(mermaid.document(hostile()))
    assert [token.type for token in tokens if token.type.startswith(("html", "fence"))] == ["fence"]
    assert "html_inline" not in [part.type for token in tokens for part in token.children or ()]


@pytest.fixture(scope="module")
def modules() -> Path:
    """A folder of node modules with Mermaid in it."""
    places = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
    found = [place for place in places if (place / "mermaid").is_dir() and (place / "jsdom").is_dir()]
    if not found or not shutil.which("node"):
        pytest.skip("needs node, and mermaid and jsdom in a folder of NODE_PATH")
    return found[0]


READ = """
const page = new (await import(process.argv[1])).default.JSDOM('');
globalThis.window = page.window;
globalThis.document = page.window.document;
const mermaid = await import(process.argv[2]);
let text = '';
for await (const part of process.stdin) text += part;
await mermaid.default.parse(text);
const {db} = await mermaid.default.mermaidAPI.getDiagramFromText(text);
console.log(JSON.stringify({nodes: [...db.getVertices().keys()], edges: db.getEdges().length, title: db.getAccTitle(),
  groups: db.getSubGraphs().map(each => [each.id, each.nodes.length])}));
"""


def read_with_mermaid(modules: Path, text: str) -> Any:
    paths = [str(modules / "jsdom/lib/api.js"), str(modules / "mermaid/dist/mermaid.core.mjs")]
    ended = subprocess.run(
        ["node", "--input-type=module", "-e", READ, *paths], input=text, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[:500]
    return json.loads(ended.stdout)


def test_mermaid_reads_every_box_edge_and_component(diagram: Diagram, modules: Path) -> None:
    for one in (diagram, hostile()):
        read = read_with_mermaid(modules, mermaid.flowchart(one))
        assert set(read["nodes"]) >= {box.id for group in one.groups for box in group.boxes}
        assert read["edges"] == len(one.edges)
        assert sorted(read["groups"]) == sorted([group.id, len(group.boxes)] for group in one.groups)
        assert read["title"]
