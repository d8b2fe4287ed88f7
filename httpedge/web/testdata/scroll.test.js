import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Following } from '../page/scroll.js';

const client = 400;
const at = (top, height) => ({ top, height, client });

/** A view that was put at the end of what is this high. */
function ended(height) {
  const view = new Following();
  view.put(at(height - client, height));
  return view;
}

test('the smallest step up lets go, while an answer grows', () => {
  const view = ended(1000);
  view.scrolled(at(598, 1000));
  assert.equal(view.follows, false);
  const growing = ended(1000);
  growing.scrolled(at(598, 1040));
  assert.equal(growing.follows, false);
  view.scrolled(at(598, 3000));
  assert.equal(view.follows, false);
});

test('a wheel, a finger or a key lets go before the view moves', () => {
  const view = ended(1000);
  view.up();
  view.scrolled(at(600, 1000)); // heard late: it was put there before
  assert.equal(view.follows, false);
  const short = ended(client);
  short.up();
  assert.equal(short.follows, true, 'there is nothing above');
});

test('growing lets nobody go, by whatever amount and in whatever order it is heard', () => {
  const view = ended(1000);
  view.scrolled(at(600, 9000));
  assert.equal(view.follows, true);
});

test('what shrinks, and a box that grows, is nobody\'s step', () => {
  const view = ended(1000);
  view.scrolled(at(300, 700)); // clamped
  assert.equal(view.follows, true);
  view.put(at(300, 700));
  view.scrolled(at(280, 690));
  assert.equal(view.follows, true);
  view.scrolled({ top: 200, height: 700, client: 450 });
  assert.equal(view.follows, true);
});

test('whoever reaches the end follows it again', () => {
  const view = ended(1000);
  view.scrolled(at(100, 1000));
  view.scrolled(at(500, 1000));
  assert.equal(view.follows, false);
  view.scrolled(at(599.5, 1000));
  assert.equal(view.follows, true);
  view.up();
  view.down();
  assert.equal(view.follows, true);
  view.scrolled(at(100, 1000));
  view.down();
  assert.equal(view.follows, false);
});
