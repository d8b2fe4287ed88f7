// Official clients against /responses: each streams text and makes whole round trips with function tools, told nothing but the
// base URL and the key. One line of JSON for each case: {name, error}, error null or what went wrong.
//
//   node responses.mjs <base URL> <token> <agents: JSON>
import assert from 'node:assert/strict';
import OpenAI, { APIError, BadRequestError, ConflictError, NotFoundError } from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, stepCountIs, streamText, tool as aiTool } from 'ai';
import { createOpenAI } from '@ai-sdk/openai';
import { ChatOpenAI } from '@langchain/openai';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { z } from 'zod';

const [baseURL, apiKey, given] = process.argv.slice(2);
const agents = JSON.parse(given);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const model = agents.weather;
const weather = {
  type: 'function', name: 'get_weather', description: 'The weather of a city', strict: true,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
};
const question = 'What is the weather in Rome?';
const user = (content) => ({ role: 'user', content });
const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');
const outputFor = (call, output) => ({ type: 'function_call_output', call_id: call.call_id, output });
setTracingDisabled(true);

// streamed returns all events of a stream, after a look at their numbers, and the response of the last one.
async function streamed(body) {
  const events = [];
  for await (const event of await client.responses.create({ model, stream: true, ...body })) {
    assert.equal(event.sequence_number, events.length);
    events.push(event);
  }
  return { events, response: events.at(-1).response };
}

const cases = {
  async openai_streams_text() {
    const { events, response } = await streamed({ input: 'Hello there' });
    const types = events.map((e) => e.type);
    assert.deepEqual(types.slice(0, 4), [
      'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
    ]);
    assert.deepEqual(types.slice(-4), [
      'response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.completed',
    ]);
    const deltas = events.filter((e) => e.type === 'response.output_text.delta');
    assert.ok(deltas.length > 1, 'in pieces');
    const text = deltas.map((e) => e.delta).join('');
    assert.equal(text, 'user: Hello there');
    assert.equal(events.find((e) => e.type === 'response.output_text.done').text, text);
    assert.equal(response.output[0].content[0].text, text);
    assert.deepEqual(response.output[0], events.find((e) => e.type === 'response.output_item.done').item);
    assert.ok(deltas.every((e) => e.item_id === response.output[0].id));
    assert.equal(events[0].response.id, response.id);
    assert.equal(events[0].response.status, 'in_progress');
    assert.ok(response.usage.total_tokens > 0);
  },

  async openai_helper_streams_text() {
    const response = await client.responses.stream({ model, input: 'Hello there' }).finalResponse();
    assert.equal(response.output_text, 'user: Hello there');
    assert.equal(response.status, 'completed');
  },

  async openai_calls_a_tool_and_continues() {
    const { events, response: first } = await streamed({ input: question, tools: [weather] });
    const [call] = callsOf(first);
    assert.deepEqual([call.name, JSON.parse(call.arguments), call.status], ['get_weather', { city: 'Rome' }, 'completed']);
    assert.equal(first.status, 'completed');
    assert.equal(first.output_text ?? first.output[0].content[0].text, 'Let me see.');
    const done = events.find((e) => e.type === 'response.function_call_arguments.done');
    assert.equal(done.arguments, call.arguments);
    const pieces = events.filter((e) => e.type === 'response.function_call_arguments.delta' && e.item_id === call.id);
    assert.equal(pieces.map((e) => e.delta).join(''), call.arguments);
    const { response: second } = await streamed({ previous_response_id: first.id, input: [outputFor(call, 'sunny')], tools: [weather] });
    assert.equal(second.output.length, 1);
    assert.equal(second.output[0].content[0].text, 'It is sunny there.');
    assert.equal(second.id, first.id);
    assert.ok(second.usage.input_tokens < 2 * first.usage.input_tokens + 100, 'of this response alone');
    const third = await client.responses.create({ model, previous_response_id: first.id, input: 'Thanks' });
    assert.match(third.output_text, /user: What is the weather in Rome\? .*calls get_weather .*output sunny .*assistant: Let me see\.\n\nIt is sunny there\. \/ user: Thanks/s);
  },

  async openai_calls_a_tool_with_the_whole_input() {
    const input = [user(question)];
    const first = await client.responses.stream({ model, input, tools: [weather] }).finalResponse();
    const [call] = callsOf(first);
    input.push(...first.output, outputFor(call, 'rainy'));
    const second = await client.responses.stream({ model, input, tools: [weather] }).finalResponse();
    assert.equal(second.output_text, 'It is rainy there.');
    assert.notEqual(second.id, first.id, 'a session of its own');
    input.push(...second.output, user('Thanks'));
    const third = await client.responses.create({ model, input });
    assert.match(third.output_text, /user: What is the weather in Rome\? .*output rainy .*It is rainy there\. \/ user: Thanks/s);
  },

  async openai_calls_tools_side_by_side() {
    const first = await client.responses.create({ model, input: 'weather of both', tools: [weather] });
    const calls = callsOf(first);
    assert.deepEqual(calls.map((c) => JSON.parse(c.arguments).city), ['Rome', 'Oslo']);
    const continued = { model, previous_response_id: first.id, tools: [weather] };
    const { response: waits } = await streamed({ ...continued, input: [outputFor(calls[1], 'snowy')] });
    assert.deepEqual(callsOf(waits).map((c) => c.call_id), [calls[0].call_id], 'the other one still waits');
    assert.equal(waits.output.length, 1);
    await assert.rejects(client.responses.create({ ...continued, input: [outputFor(calls[1], 'twice')] }), ConflictError);
    const done = await client.responses.create({ ...continued, input: [outputFor(calls[0], 'sunny')] });
    assert.equal(done.output_text, 'It is sunny and snowy there.');
    const again = await client.responses.create({ model, input: 'weather of both', tools: [weather] });
    const both = await streamed({
      previous_response_id: again.id, tools: [weather], input: callsOf(again).map((call, i) => outputFor(call, ['warm', 'cold'][i])),
    });
    assert.equal(both.response.output[0].content[0].text, 'It is warm and cold there.');
  },

  async openai_earlier_items_and_instructions() {
    const got = await client.responses.create({
      model, instructions: 'Be brief.', metadata: { case: 'earlier' }, temperature: 0.5, top_p: 0.9, max_output_tokens: 500, user: 'u1', store: true,
      input: [
        { role: 'developer', content: 'Say it.' }, user('one'),
        { role: 'assistant', content: [{ type: 'output_text', text: 'two' }] }, { type: 'message', ...user([{ type: 'input_text', text: 'three' }]) },
      ],
    });
    assert.equal(got.output_text, 'system: I know the weather.\n\nBe brief.\n\nSay it. / user: one / assistant: two / user: three');
    assert.equal(got.instructions, 'Be brief.');
    assert.deepEqual(got.metadata, { case: 'earlier' });
    assert.deepEqual([got.temperature, got.top_p, got.max_output_tokens, got.user], [0.5, 0.9, 500, 'u1']);
  },

  async openai_structured_output() {
    const format = zodTextFormat(z.object({ city: z.string() }), 'place');
    const got = await client.responses.parse({ model, input: 'Where?', text: { format } });
    assert.deepEqual(got.output_parsed, { city: 'Rome' });
    assert.equal(got.text.format.name, 'place');
    const any = await client.responses.create({ model, input: 'Where?', text: { format: { type: 'json_object' } } });
    assert.deepEqual(JSON.parse(any.output_text), { city: 'Rome' });
  },

  async openai_pause_for_a_person() {
    const { events, response } = await streamed({ model: agents.careful, input: 'Roll the dice, please: approval' });
    assert.equal(events.at(-1).type, 'response.incomplete');
    assert.equal(response.status, 'requires_action');
    assert.equal(response.incomplete_details.reason, 'requires_action');
    assert.equal(response.pending_actions[0].kind, 'tool_approval');
  },

  async openai_failures() {
    const { events, response } = await streamed({ model: agents.broken, input: 'hi' });
    assert.equal(events.at(-1).type, 'response.failed');
    assert.equal(response.status, 'failed');
    assert.ok(response.error.code && response.error.message);
    const bad = (body, kind = BadRequestError, message = /./) => assert.rejects(
      client.responses.create({ model, input: 'hi', ...body }), (e) => e instanceof kind && message.test(e.message));
    await bad({ store: false }, BadRequestError, /store/);
    await bad({ tools: [{ type: 'web_search' }] }, BadRequestError, /web_search/);
    await bad({ tools: [{ type: 'function', name: 'no name', parameters: {} }] }, BadRequestError, /tools/);
    await bad({ truncation: 'disabled' }, BadRequestError, /truncation/);
    await bad({ prompt: { id: 'p' } }, BadRequestError, /prompt/);
    await bad({ top_logprobs: 3 }, BadRequestError, /logprobs/);
    await bad({ input: [user('x'), { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] }, BadRequestError, /no output/);
    await bad({ input: [user('x'), { type: 'function_call_output', call_id: 'none', output: 'x' }] }, ConflictError, /none/);
    await bad({ input: [{ type: 'item_reference', id: 'msg_conv_0.1.0' }, user('x')] }, NotFoundError);
    await bad({ stream: true, previous_response_id: 'resp_conv_0' }, NotFoundError);
    const first = await client.responses.create({ model, input: question, tools: [weather] });
    await bad({ previous_response_id: first.id, input: 'never mind' }, ConflictError);
    await bad({ previous_response_id: first.id, input: [outputFor({ call_id: 'other' }, 'x')] }, ConflictError, /other/);
    await bad({ previous_response_id: first.id, stream: true, input: [outputFor(callsOf(first)[0], 'x'), user('and')] }, BadRequestError, /nothing can follow/);
    await assert.rejects(client.post('/agents/responses', { body: { model, input: 'x', stream: true } }), (e) => e instanceof APIError && e.status === 400 && /never streamed/.test(e.message));
    await assert.rejects(client.post('/agents/responses', { body: { model, input: 'x', instructions: 'y' } }), (e) => e.status === 400 && /instructions/.test(e.message));
  },

  async agents_streams_and_calls_tools() {
    const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }) });
    const cities = [];
    const getWeather = agentTool({
      name: 'get_weather', description: 'The weather of a city', parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => (cities.push(city), 'sunny'),
    });
    const agent = new Agent({ name: 'Weather', instructions: 'Be brief.', model, tools: [getWeather] });
    const result = await runner.run(agent, question, { stream: true });
    let text = '';
    for await (const event of result) if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
    await result.completed;
    assert.equal(result.finalOutput, 'It is sunny there.');
    assert.equal(text, 'Let me see.It is sunny there.');
    assert.deepEqual(cities, ['Rome']);
    const again = await runner.run(agent, [...result.history, { role: 'user', content: 'Thanks, bye' }]);
    assert.match(again.finalOutput, /What is the weather in Rome\?.*output sunny.*It is sunny there\. \/ user: Thanks, bye/s);
    const continued = await runner.run(agent, 'weather of both', { previousResponseId: again.lastResponseId });
    assert.equal(continued.finalOutput, 'It is sunny and sunny there.');
    assert.deepEqual(cities, ['Rome', 'Rome', 'Oslo']);
  },

  async ai_streams_and_calls_tools() {
    const openai = createOpenAI({ baseURL, apiKey });
    const cities = [];
    const tools = { get_weather: aiTool({ description: 'The weather of a city', inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => (cities.push(city), 'sunny') }) };
    let failed = null;
    const asked = { model: openai(model), system: 'Be brief.', tools, stopWhen: stepCountIs(3), maxRetries: 0, onError: ({ error }) => { failed = error; } };
    const result = streamText({ ...asked, prompt: question });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    assert.equal(failed, null);
    assert.equal(text, 'Let me see.It is sunny there.');
    assert.deepEqual(cities, ['Rome']);
    assert.equal(await result.finishReason, 'stop');
    assert.ok((await result.totalUsage).totalTokens > 0);
    const messages = [{ role: 'user', content: question }, ...(await result.response).messages, { role: 'user', content: 'Thanks, bye' }];
    const again = await generateText({ model: openai(model), messages, maxRetries: 0 });
    assert.match(again.text, /What is the weather in Rome\?.*output sunny.*It is sunny there\. \/ user: Thanks, bye/s);
    const continued = await generateText({ ...asked, prompt: 'weather of both', providerOptions: { openai: { previousResponseId: again.response.id } } });
    assert.equal(continued.text, 'It is sunny and sunny there.');
    const broken = streamText({ ...asked, model: openai(agents.broken), prompt: 'hi' });
    for await (const piece of broken.textStream) void piece;
    assert.ok(failed !== null || (await broken.finishReason) !== 'stop', 'a failure is no answer');
  },

  async langchain_streams_and_calls_tools() {
    const llm = new ChatOpenAI({ model, apiKey, configuration: { baseURL }, useResponsesApi: true, maxRetries: 0 });
    const withTools = llm.bindTools([{ type: 'function', function: { name: 'get_weather', description: weather.description, parameters: weather.parameters } }]);
    const whole = async (asked, messages) => {
      let all = null, count = 0;
      for await (const chunk of await asked.stream(messages)) { all = all === null ? chunk : all.concat(chunk); count++; }
      assert.ok(count > 1, 'in pieces');
      return all;
    };
    const messages = [new SystemMessage('Be brief.'), new HumanMessage(question)];
    const first = await whole(withTools, messages);
    assert.equal(first.text, 'Let me see.');
    assert.deepEqual(first.tool_calls.map((c) => [c.name, c.args]), [['get_weather', { city: 'Rome' }]]);
    messages.push(first, new ToolMessage({ tool_call_id: first.tool_calls[0].id, content: 'sunny' }));
    const second = await whole(withTools, messages);
    assert.equal(second.text, 'It is sunny there.');
    assert.ok(second.usage_metadata.total_tokens > 0);
    const again = await llm.invoke([...messages, new AIMessage(second.text), new HumanMessage('Thanks, bye')]);
    assert.match(again.text, /What is the weather in Rome\?.*output sunny.*It is sunny there\. \/ user: Thanks, bye/s);
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
process.exit(0); // a client may keep connections open
