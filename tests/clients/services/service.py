"""An HTTP service that times its requests with the stock OpenTelemetry SDK for Python.

Usage: service.py '{"protocol": "grpc" | "http/protobuf", "endpoint": …, "temporality": "delta" | "cumulative",
"aggregation": "explicit" | "exponential", "compression": "none" | "gzip", "interval_ms": …, "service": …, "log": FILE}'

It prints the port that it listens on. `GET /chat?duration=S&ttft=S` records what a model server would: the two times, as
they are told, and the time that this request really took. The log gets a line of JSON for each recorded value, before it
is recorded, and two for each histogram point that is exported: `tried` before, `exported` when the exporter says that it
succeeded. SIGTERM ends it as an orderly service ends: what it counted is flushed.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

HTTP = "http.server.request.duration"
CHAT = "gen_ai.server.request.duration"
FIRST = "gen_ai.server.time_to_first_token"

# What the semantic conventions advise.
BOUNDS = {
    HTTP: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
    CHAT: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    FIRST: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0],
}


class Log:
    """Lines that are with the kernel when `write` returns: a killed process has written them."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, **line):
        os.write(self.file, (json.dumps(line) + "\n").encode())


def exporter_class(protocol):
    if protocol == "grpc":
        from grpc import Compression
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter, {"none": Compression.NoCompression, "gzip": Compression.Gzip}
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter, {"none": Compression.NoCompression, "gzip": Compression.Gzip}


def points(data):
    """Each histogram point: its metric, its run and its count."""
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    if hasattr(point, "bucket_counts") or hasattr(point, "positive"):
                        yield {
                            "metric": metric.name,
                            "start": str(point.start_time_unix_nano),
                            "time": str(point.time_unix_nano),
                            "count": point.count,
                        }


def told(stock, log):
    """The stock exporter, which also says what it exports."""

    class Told(stock):
        def export(self, metrics_data, *args, **kwargs):
            exported = list(points(metrics_data))
            for point in exported:
                log.write(kind="tried", **point)
            result = super().export(metrics_data, *args, **kwargs)
            if result is MetricExportResult.SUCCESS:
                for point in exported:
                    log.write(kind="exported", **point)
            return result

    return Told


def provider(config, log):
    stock, compressions = exporter_class(config["protocol"])
    temporality = AggregationTemporality[config["temporality"].upper()]
    options = {
        "endpoint": config["endpoint"],
        "preferred_temporality": {Histogram: temporality},
        "compression": compressions[config["compression"]],
    }
    if config["protocol"] == "grpc":
        options["insecure"] = True
    reader = PeriodicExportingMetricReader(told(stock, log)(**options), export_interval_millis=config["interval_ms"])
    views = []
    if config["aggregation"] == "exponential":
        views = [View(instrument_name="*", aggregation=ExponentialBucketHistogramAggregation())]
    resource = Resource.create({"service.name": config["service"], "service.version": "1.2.3"})
    return MeterProvider(metric_readers=[reader], resource=resource, views=views, shutdown_on_exit=False)


def main():
    config = json.loads(sys.argv[1])
    log = Log(config["log"])
    metrics = provider(config, log)
    meter = metrics.get_meter("chat-service", "0.1")
    histograms = {
        name: meter.create_histogram(name, unit="s", explicit_bucket_boundaries_advisory=bounds)
        for name, bounds in BOUNDS.items()
    }

    def record(name, seconds, attributes):
        log.write(kind="value", metric=name, value=seconds)
        histograms[name].record(seconds, attributes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # An answer is written at once: in pieces, the second one would wait for the first one's acknowledgement.
        wbufsize = -1

        def do_GET(self):
            begun = time.perf_counter()
            query = parse_qs(urlsplit(self.path).query)
            model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny", "gen_ai.provider.name": "own"}
            record(CHAT, float(query["duration"][0]), model)
            record(FIRST, float(query["ttft"][0]), model)
            route = {"http.request.method": "GET", "http.route": "/chat", "http.response.status_code": 200}
            record(HTTP, time.perf_counter() - begun, route)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(server.server_port, flush=True)
    server.serve_forever()
    server.server_close()
    metrics.shutdown()


main()
