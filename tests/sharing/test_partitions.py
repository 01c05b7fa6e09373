"""The partitions of AWS, as the AWS SDK knows them."""

import json
from importlib.resources import files

from sharing.aws.partitions import HOME_REGIONS, partition_of

PARTITIONS = json.loads(files("botocore").joinpath("data", "partitions.json").read_text(encoding="utf-8"))["partitions"]


def test_every_region_is_in_its_partition_and_every_partition_has_a_home() -> None:
    regions = {
        partition["id"]: [name for name in partition["regions"] if "global" not in name] for partition in PARTITIONS
    }
    assert {name: {partition_of(region) for region in found} for name, found in regions.items()} == {
        name: {name} for name in regions
    }
    assert all(home in regions[name] for name, home in HOME_REGIONS.items())
    assert HOME_REGIONS.keys() == regions.keys()
