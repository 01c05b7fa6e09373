"""What `leftovers` finds: every page of every list, or an error."""

from __future__ import annotations

import pytest

from tandem.command import main
from tandem.deployed.aws import leftovers
from tandem.deployed.aws.session import Account
from tests.tandem.account import whole_stack
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import OURS, Emulated
from tests.tandem.account.passing import Passing

Capture = pytest.CaptureFixture[str]


def test_an_error_that_says_nothing_of_rights_ends_the_search(
    creation: Creation, emulated: Emulated, capsys: Capture
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListQueues"] = "InternalError"
    code = main(["leftovers", "--delete", "--yes"])
    out = capsys.readouterr().out
    assert (code, out) == (2, "")
    emulated.denied.clear()
    assert ("volumes", volume) in creation.census()


@pytest.mark.slow
def test_every_list_is_read_to_its_last_page(
    creation: Creation, emulated: Emulated, account: Account, passing: Passing
) -> None:
    whole_stack.make(creation)
    whole = {(one.kind, one.id) for one in leftovers.inventory(account, "timeslice").things}
    emulated.one_per_page = True
    found = leftovers.inventory(account, "timeslice")
    assert {(one.kind, one.id) for one in found.things} == whole
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert [one for one in outcomes if one.left] == []


def test_a_queue_behind_the_first_page_is_found(creation: Creation, emulated: Emulated, account: Account) -> None:
    """AWS gives 1,000 queues and no token, unless asked for a number of them (API_ListQueues); here 2."""
    emulated.queue_limit = 2
    for _ in range(4):
        creation.SQS_queues({})
    queue = creation.SQS_queues(OURS)
    assert [one.id for one in leftovers.inventory(account, "timeslice").things] == [queue]


def test_a_failed_nat_gateway_goes_by_itself_and_a_failed_endpoint_does_not(
    creation: Creation, account: Account
) -> None:
    from moto.ec2.models import ec2_backends

    backend = ec2_backends["123456789012"]["us-east-1"]
    backend.nat_gateways[creation.NAT_gateways(OURS)].state = "failed"
    endpoint = creation.VPC_endpoints(OURS)
    backend.vpc_end_points[endpoint].state = "Failed"
    assert [one.id for one in leftovers.inventory(account, "timeslice").things] == [endpoint]


def test_public_snapshots_of_others_are_not_read(emulated: Emulated, account: Account) -> None:
    """Unless asked for an owner's, EC2 lists every public snapshot as well (API_DescribeSnapshots)."""
    asked: list[object] = []

    def note(operation: str, parameters: dict[str, object]) -> None:
        if operation == "DescribeSnapshots":
            asked.append(parameters.get("OwnerIds"))

    emulated.laws = note
    leftovers.inventory(account, "timeslice")
    assert asked
    assert all(owners == ["self"] for owners in asked)
