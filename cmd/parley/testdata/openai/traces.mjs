// OpenTelemetry's exporters for JavaScript against POST /traces: spans by the conventions for generative AI become sessions and their
// events, sent as JSON and as protobuf with gzip. One line of JSON for each case: {name, error}, error null or what went wrong.
//
//   node traces.mjs <base URL> <token> <nothing: JSON>
import assert from 'node:assert/strict';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { OTLPTraceExporter as JSONExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const [base, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };

// exported has one conversation of an agent traced: a model call, a tool that fails.
async function exported(exporter, conversation) {
  const failures = [];
  const send = exporter.export.bind(exporter);
  exporter.export = (spans, done) => send(spans, (result) => { if (result.error) failures.push(result.error); done(result); });
  const provider = new BasicTracerProvider({ resource: resourceFromAttributes({ 'service.name': 'travel' }), spanProcessors: [new BatchSpanProcessor(exporter)] });
  const tracer = provider.getTracer('agents', '1.0.0');
  const run = tracer.startSpan('invoke_agent Planner', { root: true, attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'Planner', 'gen_ai.conversation.id': conversation } });
  const inside = { 'gen_ai.conversation.id': conversation };
  const model = tracer.startSpan('chat large', { kind: SpanKind.CLIENT, root: true, attributes: { ...inside,
    'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'any', 'gen_ai.request.model': 'large', 'gen_ai.response.model': 'large-2', 'gen_ai.usage.input_tokens': 120, 'gen_ai.usage.output_tokens': 30 } });
  model.end();
  const tool = tracer.startSpan('execute_tool find_trains', { root: true, attributes: { ...inside, 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'find_trains', 'gen_ai.tool.call.id': 'call_1' } });
  tool.setStatus({ code: SpanStatusCode.ERROR, message: 'no trains' });
  tool.end();
  run.end();
  await provider.forceFlush();
  await provider.shutdown();
  assert.deepEqual(failures, []);

  const answer = await fetch(`${base}/tracing/threads/${conversation}`, { headers });
  assert.equal(answer.status, 200, await answer.clone().text());
  const thread = await answer.json();
  assert.equal(thread.threadId, conversation);
  assert.equal(thread.totalInputTokens, 120);
  assert.equal(thread.totalOutputTokens, 30);
  assert.equal(thread.totalEvents, 3);
  assert.deepEqual(thread.modelsUsed, ['large-2']);
  assert.deepEqual(thread.toolsUsed, ['find_trains']);
  assert.deepEqual(thread.agents, ['Planner']);
}

const url = `${base}/traces`;
const cases = {
  json: () => exported(new JSONExporter({ url, headers }), 'conversation-json'),
  json_gzip: () => exported(new JSONExporter({ url, headers, compression: 'gzip' }), 'conversation-gzip'),
  protobuf: () => exported(new ProtobufExporter({ url, headers, compression: 'gzip' }), 'conversation-protobuf'),
  async refused() {
    let error = null;
    const exporter = new JSONExporter({ url, headers: { Authorization: 'Bearer none' } });
    const send = exporter.export.bind(exporter);
    exporter.export = (spans, done) => send(spans, (result) => { error = result.error; done(result); });
    const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
    provider.getTracer('agents').startSpan('one').end();
    await provider.forceFlush().catch(() => {});
    assert.equal(error?.code, 401);
    await provider.shutdown().catch(() => {});
  },
};

for (const [name, run] of Object.entries(cases)) {
  let error = null;
  try { await run(); } catch (failed) { error = String(failed?.stack || failed); }
  console.log(JSON.stringify({ name, error }));
}
