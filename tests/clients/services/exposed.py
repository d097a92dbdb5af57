"""A server that counts its requests with the stock Prometheus client for Python, by vLLM's names.

Usage: exposed.py PORT (text | openmetrics)

PORT is 0 for any; it prints the port that it listens on. Each line of standard input, `N SECONDS`, is N requests that took so
long, of 20 tokens each; the answer is `done`. Its page is in Prometheus's text format whatever is asked for, or in what the client
makes of the question, which is OpenMetrics for who takes it.
"""

import sys
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import Counter, Histogram, make_wsgi_app

BOUNDS = [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0]
LATENCY = Histogram("vllm:e2e_request_latency_seconds", "Time of a request.", ["model_name"], buckets=BOUNDS)
SUCCESS = Counter("vllm:request_success", "Requests.", ["model_name", "finished_reason"])
TOKENS = Counter("vllm:generation_tokens", "Tokens.", ["model_name"])


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def main():
    port, text_format = int(sys.argv[1]), sys.argv[2]
    stock = make_wsgi_app()

    def app(environ, start_response):
        if text_format == "text":
            environ["HTTP_ACCEPT"] = "text/plain"
        return stock(environ, start_response)

    server = make_server("127.0.0.1", port, app, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        requests, seconds = line.split()
        for _ in range(int(requests)):
            LATENCY.labels("m").observe(float(seconds))
            SUCCESS.labels("m", "stop").inc()
            TOKENS.labels("m").inc(20)
        print("done", flush=True)


if __name__ == "__main__":
    main()
