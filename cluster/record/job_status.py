"""A running job's message in Ray's own job list (`ray job list`, the dashboard).

Ray has no public call for a job to speak about itself. What the dashboard shows is the
JobInfo record in the cluster's key-value store, written by the job's supervisor at its
start and at its end; between the two only its `message` is changed here.
"""

from __future__ import annotations

import json
import logging
import os

log = logging.getLogger("parley")

WRITE_SECONDS = 5.0


def submitted_job() -> str | None:
    """Id of the job that `ray job submit` made of this process, if it did."""
    config = os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR")
    return json.loads(config).get("metadata", {}).get("job_submission_id") if config else None


class JobMessage:
    """`say` replaces the job's message. Outside a submitted job it does nothing."""

    def __init__(self):
        self.job = submitted_job()

    def say(self, message: str) -> None:
        if self.job is None:
            return
        import ray

        if not ray.is_initialized():
            return
        try:
            self._write(message)
        except ray.exceptions.RayError as error:  # a run does not stop for a status line; it says so once
            log.warning("job status messages are off: %s", error)
            self.job = None

    def _write(self, message: str) -> None:
        from ray.dashboard.modules.job.common import JobInfoStorageClient
        from ray.experimental.internal_kv import internal_kv_get_gcs_client

        store = internal_kv_get_gcs_client()
        key = JobInfoStorageClient.JOB_DATA_KEY.format(job_id=self.job).encode()
        record = store.internal_kv_get(key, namespace=b"job", timeout=WRITE_SECONDS)
        if record is None:
            return
        info = json.loads(record)
        if info["status"] == "RUNNING":  # never touch what the supervisor has closed
            info["message"] = message
            store.internal_kv_put(key, json.dumps(info).encode(), True, namespace=b"job", timeout=WRITE_SECONDS)
