import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces } from '../page/colors.js';

test('code has its pieces, and all of its text', () => {
  assert.deepEqual(pieces('return "a" // b\n', 'go').filter(([, kind]) => kind), [['return', 'kwd'], ['"a"', 'str'], ['// b\n', 'cmnt']]);
  for (const language of ['js', 'html', 'c', 'yaml', 'md']) {
    const text = '<a b="c">{d: `${e}`}</a>\n# f\n/* g';
    assert.equal(pieces(text, language).map(([piece]) => piece).join(''), text);
  }
});

test('what is unknown, huge or slow is left plain', () => {
  assert.equal(pieces('a', 'toString'), null);
  assert.equal(pieces('a\n'.repeat(10_000), 'js'), null);
  assert.equal(pieces('a'.repeat(5000), 'js'), null);
  assert.equal(pieces(' '.repeat(5000), 'js'), null);
});
