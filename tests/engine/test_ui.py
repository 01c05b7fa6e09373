"""The web page on the real engine: it comes with its key, stays, and goes, and its secrets are encrypted."""

import json

from sandbox.world import World
from tests.engine.emulated import Raise

MAIL = "ops@example.com"
UI = {"enabled": True, "admin-email": MAIL}
SECRET, DEPLOYMENT = "kubernetes:core/v1:Secret", "kubernetes:apps/v1:Deployment"


def test_a_page_comes_stays_and_goes(raised: Raise) -> None:
    stack = raised("dev", {"ui": UI})
    [secret] = stack.entities(SECRET)
    password = secret.inputs["stringData"]["WEBUI_ADMIN_PASSWORD"]
    [server] = stack.entities(DEPLOYMENT)
    container = server.inputs["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][0]["value"] == "http://llama2-7b.ollama:11434;http://mistral-7b.ollama:11434"
    assert container["envFrom"] == [{"secretRef": {"name": secret.outputs["metadata"]["name"]}}]
    assert stack.comes_up().changed == {}, "nothing has changed"
    state = json.dumps(stack.state())
    assert "tandem-ui-credentials" in state
    assert [one for one in secret.inputs["stringData"].values() if one in state] == [], "secrets are encrypted"

    stack.configure({"ui": {"admin-email": "me@example.com"}})
    changed = stack.comes_up().changed
    assert {*changed.pop("replace", ())} == {"tandem-ui-credentials"}
    assert changed == {"update": {"tandem-ui-server"}}
    [other] = stack.entities(SECRET)
    assert other.inputs["stringData"]["WEBUI_ADMIN_PASSWORD"] == password, "the password stays"

    stack.configure({"ui": {"enabled": False}})
    assert {*stack.comes_up().changed["delete"]} == {"tandem-ui"}
    assert (stack.entities(SECRET), stack.entities(DEPLOYMENT)) == ([], [])
    stack.configure({"ui": UI})
    stack.comes_up()
    stack.goes_down()
    assert stack.behind(World.entities) == []
