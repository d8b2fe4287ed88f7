// The budget of a conversation, what was spent, and what was cut short by it.

import { button, element } from './dom.js';
import { call, startStream } from './stream.js';
import { cents, usd } from './usage.js';

const $ = (id) => document.getElementById(id);

const words = {
  cut: 'The budget was used up in the middle of the answer. Raise it, then let the answer go on.',
  raised: 'The answer was cut short. The budget has room again: it can go on.',
  spent: 'The budget is used up. The next message is refused until it is raised.',
};

export class Money {
  constructor({ guarded, conversation, priced, changed }) {
    this.conversation = conversation;
    this.priced = priced; // whether the agent's answers cost something
    this.guarded = guarded;
    $('budget').addEventListener('click', guarded(() => this.open()));
    $('raise').addEventListener('click', guarded(() => this.open()));
    $('options').addEventListener('close', guarded(async () => {
      const choice = $('options').returnValue;
      if (choice !== 'save' && choice !== 'remove') return;
      const budget = choice === 'remove' ? null : { maxCostUsd: Number($('max-cost').value), onReach: $('on-reach').value };
      if (!this.conversation().id) { // it does not exist yet: it is created with it
        this.conversation().budget = budget;
        this.show();
        return;
      }
      await call('PATCH', this.path(), { budget });
      await changed();
    }));
    $('continue').addEventListener('click', guarded(() => startStream(this.path() + '/continue', {})));
  }

  path() { return '/conversations/' + this.conversation().id; }

  /** The event of the log that says at which limit a turn ended: it may have left less than its next piece would cost. */
  reached(event) {
    this.conversation().reachedUsd = event.data.max_cost_usd;
    this.show();
  }

  usedUp() {
    const { budget, spentUsd = 0, reachedUsd = 0 } = this.conversation();
    return Boolean(budget) && Math.max(spentUsd, reachedUsd) >= budget.maxCostUsd;
  }

  async open() {
    const { budget, spentUsd } = this.conversation();
    const priced = this.offers();
    $('spent').textContent = `Spent so far: ${usd(spentUsd)}`;
    $('spent').hidden = $('save-budget').hidden = !priced;
    $('max-cost').disabled = !priced;
    document.querySelectorAll('#options .priced').forEach((part) => { part.hidden = !priced; });
    // Where it is used up, a person is here to raise it.
    const cut = this.usedUp() || this.conversation().continuable;
    $('max-cost').value = budget ? Number((cut ? budget.maxCostUsd * 2 : budget.maxCostUsd).toPrecision(6)) : '';
    $('on-reach').value = budget?.onReach || 'pause';
    $('remove-budget').hidden = !budget;
    const { tools } = this.conversation().id ? await call('GET', this.path() + '/remembered-tools') : { tools: [] };
    $('remembered').replaceChildren(...tools.map((tool) => this.remembered(tool)));
    $('remembered-none').hidden = tools.length > 0;
    $('options').returnValue = '';
    $('options').showModal();
  }

  remembered(tool) {
    const item = element('li', '', tool);
    item.dataset.tool = tool;
    const forget = button('Ask again', 'quiet', this.guarded(async () => {
      await call('DELETE', `${this.path()}/remembered-tools/${tool.split('/').map(encodeURIComponent).join('/')}`);
      item.remove();
      $('remembered-none').hidden = $('remembered').childElementCount > 0;
    }));
    forget.setAttribute('aria-label', `ask again before ${tool} runs`);
    item.append(forget);
    return item;
  }

  /** A budget is for what has a price. */
  offers() { return Boolean(this.conversation().budget) || this.priced(); }

  show() {
    const conversation = this.conversation();
    $('budget').hidden = !conversation;
    $('cut').hidden = true;
    if (!conversation) return;
    const { budget, spentUsd, continuable, runtime } = conversation;
    const money = 'dev' in document.body.dataset ? usd : cents;
    $('budget').textContent = !this.offers() ? 'Tools' : budget ? `${money(spentUsd)} of ${money(budget.maxCostUsd)}` : spentUsd ? `${money(spentUsd)} spent` : 'Budget';
    if (runtime?.status === 'running' || runtime?.status === 'waiting') return;
    const state = continuable ? (this.usedUp() ? 'cut' : 'raised') : this.usedUp() ? 'spent' : '';
    $('cut').hidden = !state;
    if (!state) return;
    $('cut').dataset.state = state;
    if ($('cut-text').textContent !== words[state]) $('cut-text').textContent = words[state];
    $('raise').hidden = state === 'raised';
    $('continue').hidden = state !== 'raised';
  }
}
