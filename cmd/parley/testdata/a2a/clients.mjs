// The official clients of A2A for Node.js, unchanged: 0.3.14 speaks protocol 0.3, 1.3.0 speaks 1.0. They are told nothing but the
// URL of an agent's card and a token. One line of JSON for each case: {name, error}, error null or what went wrong.
//
//   node clients.mjs <base URL> <token> <{agents by what they do, other: base URLs of the other nodes, by comma}: JSON>
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import * as old from 'a2a-v03/client';
import * as current from 'a2a-v10/client';
import * as current10 from 'a2a-v10';

const [baseURL, token, given] = process.argv.slice(2);
const agents = JSON.parse(given);
const nodes = [baseURL, ...(agents.nodes ?? '').split(',').filter(Boolean)];
let turn = 0;
const node = () => nodes[turn++ % nodes.length]; // each request may come to another node

const authorized = (url, options = {}) =>
  fetch(url, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });

async function clientOf(sdk, agent, base) {
  const options = sdk.ClientFactoryOptions.createFrom(sdk.ClientFactoryOptions.default, {
    transports: [new sdk.JsonRpcTransportFactory({ fetchImpl: authorized })],
    cardResolver: new sdk.DefaultAgentCardResolver({ fetchImpl: authorized }),
  });
  return new sdk.ClientFactory(options).createFromUrl(`${base}/a2a/${agent}/.well-known/agent-card.json`, '');
}

// v03 and v10 bring both protocols into one form: tasks {id, context, state, text, notice}, events {task | piece | status}.
const v03 = {
  sdk: old,
  params: (text, more) => ({ message: { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more } }),
  task: (task) => ({
    id: task.id, context: task.contextId, state: task.status.state, text: task.artifacts?.map((a) => a.parts.map((p) => p.text).join('')).join(''),
    notice: task.status.message?.parts[0].text,
  }),
  event: (event) => ({
    'task': () => ({ task: v03.task(event) }),
    'artifact-update': () => ({ piece: event.artifact.parts.map((p) => p.text).join(''), append: !!event.append, last: !!event.lastChunk }),
    'status-update': () => ({ status: event.status.state, notice: event.status.message?.parts[0].text, final: event.final }),
  })[event.kind](),
  ref: (id) => ({ id }),
  asksToBeTold: (push) => ({ configuration: { blocking: false, pushNotificationConfig: push } }),
  push: (url, secrets) => ({ url, ...secrets && { token: 'the-token', authentication: { schemes: ['Bearer'], credentials: 'the-proof' } } }),
  told: (body) => v03.task(body),
  setPush: (client, taskId, id, push) => client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: { id, ...push } }),
  getPush: async (client, id, pushNotificationConfigId) => (await client.getTaskPushNotificationConfig({ id, pushNotificationConfigId })).pushNotificationConfig,
  listPushes: async (client, id) => (await client.listTaskPushNotificationConfig({ id })).map((c) => c.pushNotificationConfig),
  deletePush: (client, id, pushNotificationConfigId) => client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId }),
};
const states = ['unspecified', 'submitted', 'working', 'completed', 'failed', 'canceled', 'input-required'];
const textOf = (parts) => parts.map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join('');
const v10 = {
  sdk: current,
  params: (text, more) => ({
    tenant: '', metadata: undefined, configuration: undefined,
    message: {
      messageId: randomUUID(), role: 1, contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: undefined,
      parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: '', metadata: undefined }], ...more,
    },
  }),
  task: (task) => ({
    id: task.id, context: task.contextId, state: states[task.status.state], text: task.artifacts.map((a) => textOf(a.parts)).join(''),
    notice: task.status.message && textOf(task.status.message.parts),
  }),
  event: ({ payload }) => ({
    task: () => ({ task: v10.task(payload.value) }),
    artifactUpdate: () => ({ piece: textOf(payload.value.artifact.parts), append: payload.value.append, last: payload.value.lastChunk }),
    statusUpdate: () => ({
      status: states[payload.value.status.state], notice: payload.value.status.message && textOf(payload.value.status.message.parts), final: true,
    }),
  })[payload.$case](),
  ref: (id) => ({ id, tenant: '' }),
  asksToBeTold: (push) => ({ configuration: { acceptedOutputModes: [], historyLength: 0, returnImmediately: true, taskPushNotificationConfig: push } }),
  push: (url, secrets) => ({
    tenant: '', id: '', taskId: '', url, token: secrets ? 'the-token' : '', authentication: secrets && { scheme: 'Bearer', credentials: 'the-proof' },
  }),
  told: (body) => {
    const { payload } = current10.StreamResponse.fromJSON(body);
    return { id: payload.value.taskId, context: payload.value.contextId, state: states[payload.value.status.state] };
  },
  setPush: (client, taskId, id, push) => client.createTaskPushNotificationConfig({ ...push, taskId, id }),
  getPush: (client, taskId, id) => client.getTaskPushNotificationConfig({ tenant: '', taskId, id }),
  listPushes: async (client, taskId) => (await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' })).configs,
  deletePush: (client, taskId, id) => client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id }),
};

// reply is the text that the events of a stream come to.
function reply(events) {
  let text = events[0].task.text ?? '';
  for (const event of events) {
    if (event.piece !== undefined) text = event.append ? text + event.piece : event.piece;
  }
  return text;
}

const fails = (promise, pattern) => assert.rejects(promise, (error) => {
  assert.match(`${error.message} ${error.code ?? ''} ${error.cause?.code ?? ''} ${JSON.stringify(error.errorResponse ?? '')}`, pattern);
  return true;
});

const casesOf = (v) => {
  const client = async (agent) => clientOf(v.sdk, agents[agent], node());
  const send = async (agent, text, more) => v.task(await (await client(agent)).sendMessage(v.params(text, more)));
  const get = async (agent, id) => v.task(await (await client(agent)).getTask(v.ref(id)));
  async function* stream(agent, text, more) {
    for await (const event of (await client(agent)).sendMessageStream(v.params(text, more))) yield v.event(event);
  }
  return {
    async message() {
      const first = await send('quick', 'hello');
      assert.equal(first.state, 'completed');
      assert.equal(first.text, 'one two three');
      assert.equal(first.id, `task_${first.context}_1`);
      const second = await send('quick', 'again', { contextId: first.context });
      assert.equal(second.id, `task_${first.context}_3`);
      assert.deepEqual(await get('quick', first.id), first);
    },
    async stream() {
      const events = [];
      for await (const event of stream('slow', 'hello')) events.push(event);
      assert.equal(events[0].task.state, 'working');
      const last = events.at(-1);
      assert.deepEqual([last.status, last.final], ['completed', true]);
      const pieces = events.filter((e) => e.piece !== undefined);
      assert.ok(pieces.length > 2, 'in pieces');
      assert.equal(pieces.at(-1).last, true);
      const task = await get('slow', events[0].task.id);
      assert.equal(task.state, 'completed');
      assert.equal(reply(events), task.text);
    },
    async subscribe() {
      const [events, again] = [[], []];
      let other;
      for await (const event of stream('slow', 'hello')) {
        events.push(event);
        if (event.piece !== undefined && !other) {
          const id = events[0].task.id;
          other = (async () => {
            for await (const heard of (await client('slow')).resubscribeTask(v.ref(id))) again.push(v.event(heard));
          })();
        }
      }
      await other;
      assert.equal(again[0].task.id, events[0].task.id);
      assert.equal(again.at(-1).status, 'completed');
      assert.equal(reply(again), reply(events));
    },
    async question() {
      const asked = await send('asking', 'plan a trip');
      assert.equal(asked.state, 'input-required');
      assert.match(asked.notice, /Where to\?/);
      await fails(send('asking', 'hello?', { contextId: asked.context }), /person to act/);
      const answered = await send('asking', 'Rome', { taskId: asked.id, contextId: asked.context });
      assert.deepEqual([answered.id, answered.state, answered.text], [asked.id, 'completed', 'Off we go']);
      const events = [];
      for await (const event of stream('asking', 'plan a trip')) events.push(event);
      assert.equal(events.at(-1).status, 'input-required');
      const { id, context } = events[0].task;
      const rest = [];
      for await (const event of stream('asking', 'Oslo', { taskId: id, contextId: context })) rest.push(event);
      assert.deepEqual([rest[0].task.id, rest.at(-1).status, reply(rest)], [id, 'completed', 'Off we go']);
    },
    async cancel() {
      let id;
      const statuses = [];
      for await (const event of stream('slow', 'hello')) {
        if (event.status) statuses.push(event.status);
        if (event.task) {
          id = event.task.id;
          (await client('slow')).cancelTask(v.ref(id)).catch((error) => statuses.push(error.message));
        }
      }
      assert.deepEqual(statuses, ['canceled']);
      assert.equal((await get('slow', id)).state, 'canceled');
      await fails((await client('slow')).cancelTask(v.ref(id)), /cannot be canceled/);
    },
    async errors() {
      await fails(send('quick', 'hello', { contextId: 'conv_nowhere' }), /unknown contextId/);
      await fails(get('quick', 'task_conv_nowhere_1'), /Task not found/);
      const first = await send('quick', 'hello');
      await fails(get('slow', first.id), /Task not found/);
      await fails((await client('quick')).cancelTask(v.ref(first.id)), /cannot be canceled/);
      await fails(clientOf(v.sdk, 'nobody', node()), /404/);
      await fails((async () => { for await (const _ of stream('quick', ' ')); })(), /must contain text/);
    },
    async push() {
      const heard = [];
      let wake = () => {};
      const server = createServer(async (request, response) => {
        let body = '';
        for await (const piece of request) body += piece;
        heard.push({ path: request.url, headers: request.headers, task: v.told(JSON.parse(body)) });
        response.end();
        wake();
      });
      await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
      const url = (path) => `http://127.0.0.1:${server.address().port}${path}`;
      const told = async (path, count) => {
        while (heard.filter((h) => h.path === path).length < count) await new Promise((woken) => { wake = woken; });
        return heard.filter((h) => h.path === path);
      };
      try {
        const begun = v.task(await (await client('slow')).sendMessage({ ...v.params('hello'), ...v.asksToBeTold(v.push(url('/slow'), true)) }));
        assert.equal(begun.state, 'working');
        const [{ headers, task }] = await told('/slow', 1);
        assert.deepEqual([task.id, task.context, task.state], [begun.id, begun.context, 'completed']);
        assert.deepEqual([headers['x-a2a-notification-token'], headers.authorization], ['the-token', 'Bearer the-proof']);

        const asked = v.task(await (await client('asking')).sendMessage({ ...v.params('plan a trip'), ...v.asksToBeTold(v.push(url('/first'))) }));
        assert.deepEqual((await told('/first', 1)).map((h) => h.task.state), ['input-required']);
        const set = await v.setPush(await client('asking'), asked.id, 'second', v.push(url('/second'), true));
        assert.equal(set.url ?? set.pushNotificationConfig.url, url('/second'));
        await v.setPush(await client('asking'), asked.id, 'third', v.push(url('/third')));
        assert.equal((await v.getPush(await client('asking'), asked.id, 'second')).url, url('/second'));
        assert.deepEqual((await v.listPushes(await client('asking'), asked.id)).map((c) => c.id), [asked.id, 'second', 'third']);
        await v.deletePush(await client('asking'), asked.id, 'third');
        await send('asking', 'Rome', { taskId: asked.id, contextId: asked.context });
        assert.deepEqual((await told('/first', 2)).map((h) => h.task.state), ['input-required', 'completed']);
        assert.deepEqual((await told('/second', 1)).map((h) => [h.task.id, h.task.state]), [[asked.id, 'completed']]);
        assert.equal(heard.some((h) => h.path === '/third'), false);
        await fails(v.setPush(await client('asking'), asked.id, 'late', v.push(url('/late'))), /task is over/);
      } finally {
        server.close();
        // A connection that was made for a message and not used is not idle for the server: it would wait until its maker lets it go.
        server.closeAllConnections();
      }
    },
    async two_at_once() {
      const { context } = await send('quick', 'hello');
      const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((text) => send('quick', text, { contextId: context })));
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') assert.match(outcome.reason.message, /turn is running/);
      }
      assert.ok(outcomes.some((outcome) => outcome.status === 'fulfilled'));
    },
  };
};

for (const [version, v] of [['v03', v03], ['v10', v10]]) {
  for (const [name, run] of Object.entries(casesOf(v))) {
    let error = null;
    try {
      await run();
    } catch (e) {
      error = e.stack ?? String(e);
    }
    console.log(JSON.stringify({ name: `${version}_${name}`, error }));
  }
}
