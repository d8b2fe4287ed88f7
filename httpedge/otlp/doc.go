// Package otlp reads requests of OTLP/HTTP (opentelemetry-proto, trace service 1.x), as JSON and as protobuf. It reads what package
// actors/core/tracing keeps of spans and passes over the rest, so what a body takes in memory is bounded by the spans that are kept and
// not by how many there are.
package otlp
