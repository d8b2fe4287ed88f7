import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Axis } from '../page/dashboard/session/axis.js';
import { inOrder, layout, partsOf } from '../page/dashboard/tracing/layout.js';

let number = 0;
const event = (spanId, parentSpanId, at, durationMs, more) => ({
  number: ++number, type: 'custom', label: spanId, sequence: 0, timestamp: at === null ? null : new Date(at).toISOString(), durationMs, status: '', error: '',
  spanId, parentSpanId, modelNames: [], toolName: '', inputTokens: 0, outputTokens: 0, actor: { name: '', role: '', scope: '' }, ...more,
});
const shape = ({ spans }) => spans.map((span) => `${' '.repeat(span.depth)}${span.title} ${span.kind} ${span.from}+${span.to - span.from}`);

test('children stand behind their parents, by their beginning, whichever came first', () => {
  const all = layout([
    event('tool', 'root', 30, 10, { type: 'tool_call' }), event('chat', 'root', 10, 15, { type: 'llm_call', modelNames: ['m1'], inputTokens: 4 }),
    event('inner', 'tool', 32, 2), event('root', null, 0, 50), event('late', null, 60, 1),
  ], 0);
  assert.deepEqual(shape(all), ['root turn 0+50', ' chat · m1 model 10+15', ' tool tool 30+10', '  inner step 32+2', 'late step 60+1']);
  assert.deepEqual([all.first, all.last], [0, 61]);
  assert.deepEqual(all.spans[1].usage, { input_tokens: 4, output_tokens: 0 });
});

test('parents that are missing, their own or each other, and spans of one id', () => {
  assert.deepEqual(shape(layout([event('a', 'gone', 1, 1), event('b', 'b', 2, 1), event('b', 'b', 3, 1)], 0)), ['a step 1+1', 'b turn 2+1', ' b step 3+1']);
  const circle = layout([event('x', 'z', 5, 1), event('y', 'x', 4, 1), event('z', 'y', 6, 1), event('below', 'z', 7, 1)], 0);
  assert.deepEqual(shape(circle), ['y turn 4+1', ' z turn 6+1', '  x step 5+1', '  below step 7+1'], 'the first of a circle has no parent');
});

test('times that are absent, negative or no numbers', () => {
  const all = layout([event('c', null, null, NaN, { sequence: 3 }), event('a', null, null, 20, { sequence: 1 }), event('b', null, null, -5, { sequence: 2 })], 100);
  assert.deepEqual(shape(all), ['a step 100+20', 'b step 120+0', 'c step 120+0']);
  assert.deepEqual(shape(layout([event('a', null, 0, 5, { timestamp: 'yesterday' })], 7)), ['a step 7+5']);
  assert.deepEqual(layout([], 9), { spans: [], first: 9, last: 9 });
});

test('errors are marked, and types are not taken for members of objects', () => {
  const [a, b, c] = layout([event('a', null, 1, 1, { status: 'error' }), event('b', null, 2, 1, { error: 'no' }), event('c', null, 3, 1, { type: 'constructor' })], 0).spans;
  assert.deepEqual([a.state, b.state, c.state, c.kind], ['bad', 'bad', 'ok', 'step']);
});

test('ten thousand spans, each within the one before, or in one circle', () => {
  const n = 10_000;
  const chain = layout(Array.from({ length: n }, (_, i) => event(`s${i}`, i ? `s${i - 1}` : null, i, 1)), 0);
  assert.equal(chain.spans.length, n);
  assert.ok(chain.spans.every((span, i) => span.depth <= 12 && span.title === `s${i}`));
  const circle = layout(Array.from({ length: n }, (_, i) => event(`s${i}`, `s${(i + n - 1) % n}`, i, 1)), 0);
  assert.deepEqual(circle.spans.map((span) => span.title), chain.spans.map((span) => span.title));
});

test('a long gap between leaves is folded, although their parent goes on', () => {
  const { spans, first, last } = layout([event('root', null, 0, 1_000_000), event('a', 'root', 0, 1000), event('b', 'root', 999_000, 1000)], 0);
  const axis = new Axis(spans, first, last, true);
  assert.equal(axis.folded.length, 1);
  assert.ok(axis.place(1000) > 0.4, String(axis.place(1000)));
  assert.ok(new Axis(spans, first, last, false).place(1000) < 0.01);
});

test('what is shown of an event', () => {
  assert.deepEqual(partsOf(event('a', null, 0, 0)), []);
  assert.deepEqual(partsOf(event('a', null, 0, 0, { toolDetails: { arguments: { q: 1 }, result: '<b>', took: 3 }, sections: [{ label: 'Prompt', content: 'hi' }, 'text', { other: 1 }] })), [
    { kind: 'input', title: '', value: { q: 1 } }, { kind: 'output', title: '', value: '<b>' }, { kind: 'details', title: '', value: { took: 3 } },
    { kind: 'section', title: 'Prompt', value: 'hi' }, { kind: 'section', title: '', value: 'text' }, { kind: 'section', title: '', value: { other: 1 } },
  ]);
  assert.deepEqual(partsOf(event('a', null, 0, 0, { toolDetails: 'x', sections: { a: 1 } })).map((part) => part.value), ['x', { a: 1 }]);
  assert.equal(partsOf(event('a', null, 0, 0, { sections: Array(1000).fill('s') })).length, 101);
});

test('sessions in order', () => {
  const at = (sessionId, startedAt) => ({ sessionId, startedAt });
  assert.deepEqual(inOrder([at('c', '2026-01-02T00:00:00Z'), at('b', '2026-01-01T00:00:00Z'), at('a', '2026-01-01T00:00:00Z')]).map((one) => one.sessionId), ['a', 'b', 'c']);
});

test('the axis has times that people count in, and units of their language', async () => {
  globalThis.navigator ??= { language: 'en' };
  const [{ duration }, { speak }] = await Promise.all([import('../page/dashboard/format.js'), import('../page/dashboard/messages.js')]);
  speak('en');
  const at = (length) => new Axis([], 0, length, false).ticks(6).map((tick) => tick.at);
  assert.deepEqual(at(2100), [0, 500, 1000, 1500, 2000]);
  assert.deepEqual(at(1_804_000).map((ms) => ms / 60_000), [0, 10, 20, 30]);
  assert.deepEqual([900, 2100, 59_400, 600_000, 1_804_000, 7_200_000, 90 * 3_600_000].map(duration), ['900 ms', '2.1 s', '59 s', '10 min', '30 min 4 s', '2 h', '3 d 18 h']);
  speak('tr');
  assert.deepEqual([2100, 600_000, 7_260_000].map(duration), ['2,1 sn', '10 dk', '2 sa 1 dk']);
});
