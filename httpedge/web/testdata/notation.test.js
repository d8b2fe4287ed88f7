import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notation } from '../page/notation.js';
import MarkdownIt from '../page/vendor/markdown-it.mjs';

const parser = new MarkdownIt({ html: false, linkify: true });
notation(parser);

/** What a text is read as: formulas in ⟨⟩ (‖ of a block), footnotes in {}. */
const read = (text) => parser.parse(text, {}).flatMap((token) => (token.children?.length ? token.children : [token])).map(({ type, content, block, meta }) => {
  if (type === 'formula') return `⟨${block ? '‖' : ''}${meta.display ? '!' : ''}${content.trim()}⟩`;
  if (type.startsWith('footnote')) return meta ? `{${meta.number}}` : '{/}';
  return content;
}).join('');

test('formulas stand between their marks, and nothing in them is Markdown', () => {
  for (const [text, want] of Object.entries({
    'a $$x_1*y*z$$ b': 'a ⟨!x_1*y*z⟩ b', '\\(a_b\\) and \\[c\\]': '⟨a_b⟩ and ⟨!c⟩', '$$\nx\n\ny\n$$\nnext': '⟨‖!x\n\ny⟩next', 'a\n\\[\nb\n\\]': 'a⟨‖!b⟩',
    '- a\n  $$\n  x\n  $$\n- b': 'a⟨‖!x⟩b', '> $$\n> x\n> $$\nout': '⟨‖!x⟩out', '$$a$$$$b$$ c': '⟨!a⟩⟨!b⟩ c',
    'costs $5 and $10': 'costs $5 and $10', '$$ open': '$$ open', '\\\\(a\\\\)': '\\(a\\)', '`$$x$$`': '$$x$$', '```\n$$x$$\n```': '$$x$$\n', '$$$$': '$$$$',
  })) assert.equal(read(text), want, text);
});

test('footnotes stand where they are, and marks lead to those that there are', () => {
  assert.equal(read('See[^1] and[^n].\n\n[^1]: One *two*\nmore\n[^n]: https://example.com\n\nend'), 'See{1} and{2}.{1}One twomore{/}{2}https://example.com{/}end');
  assert.equal(read('[^1] no note, [a](b)'), '[^1] no note, a');
});
