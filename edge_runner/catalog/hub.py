"""The hub source: Hugging Face, or whatever HF_ENDPOINT names, through huggingface_hub.

The library retries a dead hub for half a minute a file, so the hub is probed first: once in a
process, for three seconds at most.
"""

from __future__ import annotations

import re
import shutil
import threading
from functools import cache as remember
from pathlib import Path
from typing import NamedTuple

from edge_runner.catalog import cache
from edge_runner.catalog.entry import HubSource
from edge_runner.catalog.partial import NO_SPACE, Fetch, PartialFile, SourceError
from edge_runner.catalog.progress import FolderWatch
from edge_runner.catalog.url import reason

PROBE_TIMEOUT_S = 3.0


def fetch(source: HubSource, job: Fetch) -> None:
    """Publish every missing file, from the hub's own cache if it is there. Raises SourceError."""
    from huggingface_hub import constants, try_to_load_from_cache

    for spec in job.missing:
        name = source.file.format(file=spec.name)
        local = try_to_load_from_cache(source.repo, name, revision=source.revision)
        if isinstance(local, str):
            job.report(f"{job.entry.name}: copying {name} from the hub's cache")
            _copy(Path(local), PartialFile(job, spec, keep_bytes=0))
            continue
        if job.offline or constants.HF_HUB_OFFLINE:
            raise SourceError("offline, and not in the hub's cache")
        unreachable = probe(constants.ENDPOINT)
        if unreachable:
            raise SourceError(f"{constants.ENDPOINT}: {unreachable}")
        job.report(f"{job.entry.name}: fetching {name} from hub {source.repo}")
        downloaded = _download(source, name, job)
        (job.folder / spec.name).parent.mkdir(parents=True, exist_ok=True)
        downloaded.replace(job.folder / spec.name)
        with PartialFile(job, spec) as part:
            part.publish()
    shutil.rmtree(job.folder / "hub", ignore_errors=True)


class HubFile(NamedTuple):
    """What the hub says of a file: the commit it is of, and None for what it does not say."""

    commit: str | None
    bytes: int | None
    sha256: str | None


def ask(repo: str, file: str, revision: str) -> HubFile:
    """Look a file up without fetching it. Raises SourceError."""
    import httpx
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HFValidationError

    if constants.HF_HUB_OFFLINE:
        raise SourceError("offline")
    unreachable = probe(constants.ENDPOINT)
    if unreachable:
        raise SourceError(f"{constants.ENDPOINT}: {unreachable}")
    try:
        found = get_hf_file_metadata(hf_hub_url(repo, file, revision=revision))
    except (httpx.HTTPError, HFValidationError, OSError) as error:
        raise SourceError(" ".join(str(error).split())[:200]) from error
    # Files in large-file storage have their SHA-256 as ETag, others their git hash.
    sha256 = found.etag if re.fullmatch(r"[0-9a-f]{64}", found.etag or "") else None
    return HubFile(found.commit_hash, found.size, sha256)


@remember
def probe(endpoint: str) -> str:
    """Why the hub cannot be reached, or an empty string. One answer a process."""
    answer = [f"no answer within {PROBE_TIMEOUT_S:.0f} s"]

    def ask() -> None:
        import httpx

        try:
            status = httpx.head(endpoint, timeout=PROBE_TIMEOUT_S).status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            answer[0] = reason(error)
        else:
            answer[0] = f"HTTP {status}" if status >= 500 else ""

    # Name resolution has no timeout of its own, so the wait is bounded from outside.
    thread = threading.Thread(target=ask, name="hub-probe", daemon=True)
    thread.start()
    thread.join(PROBE_TIMEOUT_S)
    return answer[0]


def _download(source: HubSource, name: str, job: Fetch) -> Path:
    import httpx
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    folder = job.folder / "hub"
    try:
        with FolderWatch(folder, job.tick):
            return Path(
                hf_hub_download(source.repo, name, revision=source.revision, local_dir=folder)
            )
    except (httpx.HTTPError, HFValidationError, OSError, RuntimeError) as error:
        # The library's own failures are OSErrors and, from its Xet transfer, RuntimeErrors.
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        raise SourceError(" ".join(str(error).split())[:200]) from error


def _copy(path: Path, part: PartialFile) -> None:
    with part, path.open("rb") as file:
        while chunk := file.read(cache.CHUNK_BYTES):
            part.append(chunk)
        part.publish()
