"""The url source: one HTTP(S) GET a file, continued by Range after a break."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edge_runner.catalog.entry import UrlSource
from edge_runner.catalog.partial import Fetch, PartialFile, SourceError

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 4
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


def fetch(source: UrlSource, job: Fetch) -> None:
    """Publish every missing file. Raises SourceError."""
    import httpx

    timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for spec in job.missing:
            url = source.url.format(file=spec.name)
            with PartialFile(job, spec) as part:
                for attempt in range(1, ATTEMPTS + 1):
                    before = part.size
                    try:
                        _get(client, url, part)
                    except httpx.HTTPError as error:
                        # A break after some bytes is worth continuing; silence is not.
                        if part.size == before or attempt == ATTEMPTS:
                            raise SourceError(reason(error)) from error
                    except httpx.InvalidURL as error:
                        raise SourceError(f"{url} is not a URL: {error}") from error
                    if not part.missing_bytes:
                        break
                part.publish()


def size_of(url: str) -> int:
    """Bytes of the file behind a URL, as its server says. Raises SourceError."""
    import httpx

    timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    try:
        with httpx.stream(
            "GET",
            url,
            headers={"Accept-Encoding": "identity"},
            timeout=timeout,
            follow_redirects=True,
        ) as response:
            if response.status_code != 200:
                raise SourceError(f"HTTP {response.status_code} {response.reason_phrase}".rstrip())
            length = response.headers.get("Content-Length", "")
    except httpx.HTTPError as error:
        raise SourceError(reason(error)) from error
    except httpx.InvalidURL as error:
        raise SourceError(f"{url} is not a URL: {error}") from error
    if not length.isdigit() or not int(length):
        raise SourceError("does not say how large the file is; fetch it yourself and add the file")
    return int(length)


def _get(client: httpx.Client, url: str, part: PartialFile) -> None:
    if not part.missing_bytes:
        return
    headers = {"Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 206:
            if _range_start(response.headers.get("Content-Range", "")) != part.size:
                raise SourceError("answers a range request with another range")
        elif response.status_code == 200:
            part.restart()
        else:
            raise SourceError(f"HTTP {response.status_code} {response.reason_phrase}".rstrip())
        for chunk in response.iter_bytes():
            part.append(chunk)


def _range_start(content_range: str) -> int | None:
    match = re.match(r"bytes (\d+)-", content_range)
    return int(match[1]) if match else None


def reason(error: Exception) -> str:
    """An HTTP failure in a few words, on one line."""
    import httpx

    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {CONNECT_TIMEOUT_S:.0f} s"
    if isinstance(error, httpx.TimeoutException):
        return "stopped answering"
    text = " ".join(str(error).split()) or type(error).__name__
    return f"cannot connect: {text}" if isinstance(error, httpx.ConnectError) else text
