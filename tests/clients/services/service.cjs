// An HTTP service that times its requests with the stock OpenTelemetry SDK for Node.
//
// Usage: NODE_PATH=…/node_modules node service.cjs '{"protocol": "grpc" | "http/protobuf" | "http/json", …}'; service.py
// has the rest, and does the same.
'use strict'

const fs = require('node:fs')
const http = require('node:http')
const { resourceFromAttributes, defaultResource } = require('@opentelemetry/resources')
const {
  AggregationTemporality,
  AggregationType,
  DataPointType,
  MeterProvider,
  PeriodicExportingMetricReader,
} = require('@opentelemetry/sdk-metrics')

const config = JSON.parse(process.argv[2])
const HTTP = 'http.server.request.duration'
const CHAT = 'gen_ai.server.request.duration'
const FIRST = 'gen_ai.server.time_to_first_token'

/** What the semantic conventions advise. */
const BOUNDS = {
  [HTTP]: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  [CHAT]: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  [FIRST]: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0],
}

const PACKAGES = {
  grpc: '@opentelemetry/exporter-metrics-otlp-grpc',
  'http/protobuf': '@opentelemetry/exporter-metrics-otlp-proto',
  'http/json': '@opentelemetry/exporter-metrics-otlp-http',
}

/** Lines that are with the kernel when `write` returns: a killed process has written them. */
const file = fs.openSync(config.log, 'a')
const write = (line) => fs.writeSync(file, JSON.stringify(line) + '\n')

const nanoseconds = ([seconds, nanos]) => String(BigInt(seconds) * 1_000_000_000n + BigInt(nanos))

/** Each histogram point: its metric, its run and its count. */
const points = (data) =>
  data.scopeMetrics
    .flatMap((scope) => scope.metrics)
    .filter((metric) => [DataPointType.HISTOGRAM, DataPointType.EXPONENTIAL_HISTOGRAM].includes(metric.dataPointType))
    .flatMap((metric) =>
      metric.dataPoints.map((point) => ({
        metric: metric.descriptor.name,
        start: nanoseconds(point.startTime),
        time: nanoseconds(point.endTime),
        count: point.value.count,
      }))
    )

/** The stock exporter, which also says what it exports. */
const told = (Stock) =>
  class extends Stock {
    export(data, done) {
      const exported = points(data)
      for (const point of exported) write({ kind: 'tried', ...point })
      super.export(data, (result) => {
        if (result.code === 0) for (const point of exported) write({ kind: 'exported', ...point })
        done(result)
      })
    }
  }

const { OTLPMetricExporter } = require(PACKAGES[config.protocol])
const exporter = new (told(OTLPMetricExporter))({
  url: config.endpoint,
  temporalityPreference: AggregationTemporality[config.temporality.toUpperCase()],
  compression: config.compression,
})
const views = [{ instrumentName: '*', aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }]
const provider = new MeterProvider({
  resource: defaultResource().merge(
    resourceFromAttributes({ 'service.name': config.service, 'service.version': '1.2.3', 'host.name': 'here' })
  ),
  readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: config.interval_ms })],
  views: config.aggregation === 'exponential' ? views : [],
})
const meter = provider.getMeter('chat-service', '0.1')
const histograms = Object.fromEntries(
  Object.entries(BOUNDS).map(([name, explicitBucketBoundaries]) => [
    name,
    meter.createHistogram(name, { unit: 's', advice: { explicitBucketBoundaries } }),
  ])
)

const record = (metric, value, attributes) => {
  write({ kind: 'value', metric, value })
  histograms[metric].record(value, attributes)
}

const server = http.createServer((request, response) => {
  const begun = performance.now()
  const query = new URL(request.url, 'http://here').searchParams
  const model = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'tiny', 'gen_ai.provider.name': 'own' }
  record(CHAT, Number(query.get('duration')), model)
  record(FIRST, Number(query.get('ttft')), model)
  const route = { 'http.request.method': 'GET', 'http.route': '/chat', 'http.response.status_code': 200 }
  record(HTTP, (performance.now() - begun) / 1000, route)
  response.end('ok')
})
process.on('SIGTERM', () => {
  server.close(() => {
    provider.shutdown().then(
      () => process.exit(0),
      (error) => {
        console.error(error)
        process.exit(1)
      }
    )
  })
  server.closeIdleConnections()
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
