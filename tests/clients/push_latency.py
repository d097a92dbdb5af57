#!/usr/bin/env python3
"""Pushes latencies to contador's agent: copy what you need.

Reads milliseconds from its standard input, one a line, and pushes them as the latencies of one interval:

    printf '12.5\n13\n250\n' | python3 push_latency.py --service ranker --label tier=gold

Only the standard library is needed. With --hdr the values go into an HDR histogram first, by the package `hdrhistogram`
from PyPI: a few kilobytes, however many values there are.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

AGENT = "http://127.0.0.1:9746"


def push(agent, query, body, content_type, tries=8):
    """One push; what the agent answers.

    Each try has the same `id` and `end`, so however many of them arrive, the values count once. The agent answers 200 when
    they are on its disk. 503 says that they are not, and to come back, and 408 that they came too slowly; other refusals are
    for good.
    """
    query = {"id": str(uuid.uuid4()), "end": f"{time.time():.6f}", **query}
    url = f"{agent}/v1/latency?{urllib.parse.urlencode(query)}"
    for attempt in range(1, tries + 1):
        request = urllib.request.Request(url, data=body, headers={"Content-Type": content_type})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (408, 503) or attempt == tries:
                raise RuntimeError(f"the agent refuses: {error.code} {error.read().decode()}") from error
        except OSError:
            if attempt == tries:
                raise
        time.sleep(min(0.25 * 2**attempt, 10))


def push_values(agent, query, milliseconds, aborted=()):
    """Pushes single values, and how long requests had taken when they were aborted."""
    body = {"unit": "ms", "values": list(milliseconds), "aborted": list(aborted)}
    return push(agent, query, json.dumps(body).encode(), "application/json")


def push_histogram(agent, query, milliseconds):
    """Pushes an HDR histogram of whole microseconds with 3 significant digits."""
    from hdrh.histogram import HdrHistogram  # pip install hdrhistogram

    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in milliseconds:
        histogram.record_value(round(value * 1000))
    # V2, deflated, in base 64.
    return push(agent, query, histogram.encode(), "application/octet-stream")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--agent", default=AGENT, help=f"the agent's listener, by default {AGENT}")
    arguments.add_argument("--service", required=True, help="the service that answered")
    arguments.add_argument("--metric", default="request_duration", help="what was timed")
    arguments.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="of the series")
    arguments.add_argument("--hdr", action="store_true", help="push a histogram")
    given = arguments.parse_args()

    query = {"service": given.service, "metric": given.metric}
    query.update((f"label.{name}", value) for name, _, value in (label.partition("=") for label in given.label))
    values = [float(line) for line in sys.stdin if line.strip()]
    print(json.dumps((push_histogram if given.hdr else push_values)(given.agent, query, values)))


if __name__ == "__main__":
    main()
