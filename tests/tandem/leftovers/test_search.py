"""`leftovers` reads every page of every list, or reports an error."""

import pytest
from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends

from tests.tandem.aws import whole_stack
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated

pytestmark = pytest.mark.slow


def test_an_error_other_than_a_missing_permission_ends_the_search(
    creation: Creation, emulated: Emulated, run: Run
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListQueues"] = "InternalError"
    code, out, _ = run("--delete", "--yes")
    assert (code, out) == (2, "")
    assert ("volumes", volume) in creation.census()


def test_without_permission_to_see_the_cluster_a_name_alone_proves_nothing(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    """Another stack may have a cluster with that name, so resources with only the name are left alone."""
    creation.EKS_clusters({}, CLUSTER)
    volume, instance = creation.volumes(OURS), creation.instances(whole_stack.KARPENTER)
    assert cleaning.resources() == [("volumes", volume)], "the cluster has another owner"
    emulated.denied["DescribeCluster"] = "AccessDeniedException"
    found = cleaning.look()
    assert [(resource.kind, resource.id) for resource in found.resources] == [("volumes", volume)]
    assert [*found.unseen] == ["EKS clusters"]
    cleaning.delete(found)
    assert ("instances", instance) in creation.census()
    emulated.denied["DescribeCluster"] = "InternalError"
    with pytest.raises(ClientError):
        cleaning.look()


def test_every_list_is_read_to_its_last_page(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> None:
    whole_stack.make(creation)
    whole = {*cleaning.resources()}
    emulated.one_per_page = True
    found = cleaning.look()
    assert {(one.kind, one.id) for one in found.resources} == whole
    assert [one for one in cleaning.delete(found) if one.left] == []


def test_a_queue_after_the_first_page_is_found(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> None:
    """AWS lists 1,000 queues, and a token only if MaxResults is given (API_ListQueues); here the limit is 2."""
    emulated.queue_limit = 2
    for _ in range(4):
        creation.SQS_queues({})
    queue = creation.SQS_queues(OURS)
    assert cleaning.resources() == [("SQS queues", queue)]


@pytest.mark.parametrize("state", ["Failed", "failed"])
def test_a_failed_nat_gateway_disappears_and_a_failed_endpoint_does_not(
    creation: Creation, cleaning: Cleaning, state: str
) -> None:
    """EC2 deletes such a gateway itself, after about an hour (VPC User Guide, nat-gateway-troubleshooting)."""
    backend = ec2_backends[ACCOUNT][REGION]
    backend.nat_gateways[creation.NAT_gateways(OURS)].state = "failed"
    endpoint = creation.VPC_endpoints(OURS)
    backend.vpc_end_points[endpoint].state = state
    assert cleaning.resources() == [("VPC endpoints", endpoint)]
