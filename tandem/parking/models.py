"""Parks and wakes the models of Karpenter's pools: runs the Job of the schedule now."""

import argparse

from sharing.names import OLLAMA_NAMESPACE, PROJECT
from tandem.deployed.connection import reached
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import name
from tandem.deployed.patience import Patience
from tandem.terminal import progress

JOB_SECONDS = 660.0
"""How long to wait for a Job, which may take 600 s (`components.scheduled_parking.cron_jobs`)."""


def scale_models(parsed: argparse.Namespace, verb: str) -> str:
    """Runs the Job that parks or wakes the models, and returns its name.

    Raises `NotConnectedError` if the cluster cannot be reached, or the Job fails.
    """
    with reached(parsed) as connected, progress(quiet=parsed.json) as tell:
        job = connected.cluster.start_cron_job(f"{PROJECT}-parking-{verb}", OLLAMA_NAMESPACE)
        patience = Patience(JOB_SECONDS, tell=tell)
        while True:
            jobs = [each for each in connected.cluster.jobs(OLLAMA_NAMESPACE) if name(each) == job]
            conditions = [condition for each in jobs for condition in each.get("status", {}).get("conditions", ())]
            ended = {condition["type"] for condition in conditions if condition["status"] == "True"}
            if "Complete" in ended:
                return job
            if "Failed" in ended or not patience.lasts(f"Waiting for job {job}"):
                raise NotConnectedError(
                    f"job {job} did not {verb} the models. See why with "
                    f"`kubectl --namespace {OLLAMA_NAMESPACE} logs job/{job}`."
                )
