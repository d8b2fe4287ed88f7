// The official client, unchanged, against /api/client/v1. Each case prints one line of JSON: its name, and what went wrong.
//
//   node gateway.mjs <base URL> <token> <models: JSON>
import assert from 'node:assert/strict';
import OpenAI, { AuthenticationError, BadRequestError, InternalServerError, NotFoundError, PermissionDeniedError, RateLimitError } from 'openai';

const [baseURL, apiKey, given] = process.argv.slice(2);
const models = JSON.parse(given);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const hello = [{ role: 'user', content: 'hi' }];
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
};

const cases = {
  async chat() {
    const got = await client.chat.completions.create({ model: models.chat, messages: hello });
    assert.equal(got.object, 'chat.completion');
    assert.match(got.id, /^chatcmpl-[0-9a-f]{32}$/);
    assert.equal(got.choices[0].message.content, 'Hello');
    assert.equal(got.choices[0].finish_reason, 'stop');
    assert.equal(got.usage.total_tokens, 15);
    assert.ok(got._request_id, 'x-request-id');
  },

  async tools() {
    const messages = [{ role: 'user', content: 'How is the weather?' }];
    const first = await client.chat.completions.create({ model: models.tools, messages, tools: [weather] });
    assert.equal(first.choices[0].finish_reason, 'tool_calls');
    const [call] = first.choices[0].message.tool_calls;
    assert.equal(call.function.name, 'weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Rome' });
    messages.push(first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'sunny' });
    const second = await client.chat.completions.create({ model: models.tools, messages, tools: [weather] });
    assert.equal(second.choices[0].message.content, 'It is sunny in Rome');
  },

  async tools_in_a_stream() {
    const runner = client.chat.completions.stream({ model: models.tools, messages: [{ role: 'user', content: 'weather?' }], tools: [weather] });
    const whole = await runner.finalChatCompletion();
    assert.equal(whole.choices[0].message.tool_calls[0].function.name, 'weather');
    assert.deepEqual(JSON.parse(whole.choices[0].message.tool_calls[0].function.arguments), { city: 'Rome' });
  },

  async stream_with_usage() {
    const stream = await client.chat.completions.create({
      model: models.chat, messages: hello, stream: true, stream_options: { include_usage: true },
    });
    let text = '', usage = null, finish = null;
    const ids = new Set();
    for await (const chunk of stream) {
      ids.add(chunk.id);
      text += chunk.choices[0]?.delta?.content ?? '';
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'Hello');
    assert.equal(finish, 'stop');
    assert.equal(usage.total_tokens, 15);
    assert.equal(ids.size, 1);
  },

  async stream_without_usage() {
    const stream = await client.chat.completions.create({ model: models.chat, messages: hello, stream: true });
    for await (const chunk of stream) assert.equal(chunk.usage ?? null, null);
  },

  async stream_is_left() {
    const stream = await client.chat.completions.create({ model: models.endless, messages: hello, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break; // aborts
  },

  async stream_fails_in_its_middle() {
    const stream = await client.chat.completions.create({ model: models.breaking, messages: hello, stream: true });
    let text = '';
    await assert.rejects(async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? '';
    }, /the model fell over/);
    assert.equal(text, 'Hello');
  },

  async embeddings() {
    const got = await client.embeddings.create({ model: models.embedding, input: ['a', 'b'] }); // asks for base64
    assert.deepEqual(got.data.map((d) => d.embedding), [[0.5, -1], [0.25, 2]]);
    assert.equal(got.usage.total_tokens, 3);
    const plain = await client.embeddings.create({ model: models.embedding, input: 'a', encoding_format: 'float' });
    assert.deepEqual(plain.data[0].embedding, [0.5, -1]);
  },

  async moderations() {
    const got = await client.moderations.create({ input: ['nice weather', 'I will kill you'] });
    assert.deepEqual(got.results.map((r) => r.flagged), [false, true]);
    assert.equal(got.results[1].categories['harassment/threatening'], true);
    assert.ok(got.results[1].category_scores.violence > 0.5);
  },

  async audio() {
    const spoken = await client.audio.speech.create({ model: models.speech, input: 'Hello. Hello again.', voice: 'alloy', response_format: 'wav' });
    assert.equal(spoken.headers.get('content-type'), 'audio/wav');
    assert.ok(spoken.headers.get('x-request-id'));
    const file = () => new File([sound], 'speech.wav', { type: 'audio/wav' });
    const sound = Buffer.from(await spoken.arrayBuffer());
    assert.equal(Number(spoken.headers.get('content-length')), sound.length);
    const plain = await client.audio.transcriptions.create({ model: models.hearing, file: file() });
    assert.equal(plain.text, 'Hello. Hello again.');
    const verbose = await client.audio.transcriptions.create({
      model: models.hearing, file: file(), response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'], language: 'en',
    });
    assert.equal(verbose.language, 'en');
    assert.deepEqual(verbose.words.map((w) => w.word), ['Hello.', 'Hello', 'again.']);
    assert.ok(verbose.words.every((w) => w.end > w.start));
    assert.deepEqual(verbose.segments.map((s) => s.text), ['Hello.', 'Hello again.']);
    const translated = await client.audio.translations.create({ model: models.hearing, file: file() });
    assert.equal(translated.text, plain.text);
    await assert.rejects(client.audio.transcriptions.create({ model: models.chat, file: file() }),
      (e) => e instanceof BadRequestError && /not configured for speech-to-text/.test(e.message));
  },

  async responses() {
    const got = await client.responses.create({ model: models.agent, input: 'Hello!' });
    assert.equal(got.object, 'response');
    assert.equal(got.status, 'completed');
    assert.equal(got.model, models.agent);
    assert.ok(got.output_text.length > 0);
    assert.ok(got.usage.input_tokens > 0 && got.usage.output_tokens > 0);
    const again = await client.responses.create({
      model: models.agent, previous_response_id: got.id,
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'And again' }] }],
    });
    assert.equal(again.id, got.id);
    assert.equal(again.previous_response_id, got.id);
  },

  async models_list() {
    const ids = [];
    for await (const model of client.models.list()) {
      assert.equal(model.object, 'model');
      assert.equal(typeof model.created, 'number');
      ids.push(model.id);
    }
    assert.ok(ids.includes(models.chat) && !ids.includes(models.embedding), ids.join());
  },

  async models_retrieve() {
    const got = await client.models.retrieve(models.chat);
    assert.equal(got.id, models.chat);
    assert.equal(got.object, 'model');
    assert.equal(got.owned_by, 'openai');
    assert.ok(got.created > 1_700_000_000);
  },

  async error_401() {
    const stranger = new OpenAI({ baseURL, apiKey: 'service_nobody', maxRetries: 0 });
    for (const ask of [
      () => stranger.chat.completions.create({ model: models.chat, messages: hello }),
      () => stranger.chat.completions.create({ model: models.chat, messages: hello, stream: true }),
      () => stranger.embeddings.create({ model: models.embedding, input: 'a' }),
      () => stranger.responses.create({ model: models.agent, input: 'hi' }),
      () => stranger.models.list(),
    ]) await assert.rejects(ask, (e) => e instanceof AuthenticationError && e.status === 401 && /Invalid API token/.test(e.message));
  },

  async error_403() {
    const narrow = new OpenAI({ baseURL, apiKey: models.narrow, maxRetries: 0 });
    await assert.rejects(narrow.chat.completions.create({ model: models.chat, messages: hello }),
      (e) => e instanceof PermissionDeniedError && e.type === 'permission_error' && /models requires write permission/.test(e.message));
  },

  async error_404() {
    await assert.rejects(client.chat.completions.create({ model: 'none', messages: hello }),
      (e) => e instanceof NotFoundError && e.code === 'model_not_found' && e.param === 'model' && e.type === 'not_found_error');
    await assert.rejects(client.responses.create({ model: 'none', input: 'hi' }), (e) => e instanceof NotFoundError && /Agent not found/.test(e.message));
    await assert.rejects(client.responses.create({ model: models.agent, input: 'hi', previous_response_id: 'resp_conv_0000' }), NotFoundError);
  },

  async error_400() {
    await assert.rejects(client.chat.completions.create({ messages: hello }),
      (e) => e instanceof BadRequestError && e.type === 'invalid_request_error' && e.param === 'model');
    await assert.rejects(client.embeddings.create({ model: models.embedding, input: [] }), (e) => e instanceof BadRequestError && e.param === 'input');
    await assert.rejects(client.responses.create({ model: models.agent, input: '' }), BadRequestError);
  },

  async error_429() {
    await assert.rejects(client.chat.completions.create({ model: models.limited, messages: hello }),
      (e) => e instanceof RateLimitError && e.code === 'tokens_per_minute');
  },

  async error_500_is_retried_by_the_client() {
    const patient = new OpenAI({ baseURL, apiKey, maxRetries: 1, timeout: 60_000 });
    await assert.rejects(patient.chat.completions.create({ model: models.broken, messages: hello }),
      (e) => e instanceof InternalServerError && e.status === 500);
  },
};

for (const [name, run] of Object.entries(cases)) {
  let error = null;
  try {
    await run();
  } catch (e) {
    error = String(e?.stack ?? e);
  }
  console.log(JSON.stringify({ name, error }));
}
