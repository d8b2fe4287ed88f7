// The budget of a conversation, what was spent, and what was cut short by it.

import { call, startStream } from './stream.js';

const $ = (id) => document.getElementById(id);

const usd = (amount) => '$' + (amount || 0).toFixed(amount > 0 && amount < 0.01 ? 6 : 4);

export class Money {
  constructor({ guarded, conversation, changed }) {
    this.conversation = conversation;
    $('budget').addEventListener('click', guarded(() => this.open()));
    $('options').addEventListener('close', guarded(async () => {
      const choice = $('options').returnValue;
      if (choice !== 'save' && choice !== 'remove') return;
      const budget = choice === 'remove' ? null : { maxCostUsd: Number($('max-cost').value), onReach: $('on-reach').value };
      Object.assign(this.conversation(), await call('PATCH', this.path(), { budget }));
      changed();
    }));
    $('continue').addEventListener('click', guarded(() => startStream(this.path() + '/continue', {})));
  }

  path() { return '/conversations/' + this.conversation().id; }

  async open() {
    const { budget, spentUsd } = this.conversation();
    $('spent').textContent = `Spent so far: ${usd(spentUsd)}`;
    $('max-cost').value = budget?.maxCostUsd ?? '';
    $('on-reach').value = budget?.onReach || 'pause';
    $('remove-budget').hidden = !budget;
    const { tools } = await call('GET', this.path() + '/remembered-tools');
    $('remembered').replaceChildren(...tools.map((tool) => {
      const item = document.createElement('li');
      item.textContent = tool + ' ';
      const forget = document.createElement('button');
      forget.type = 'button';
      forget.className = 'tiny';
      forget.textContent = 'Ask again';
      forget.addEventListener('click', async () => {
        await call('DELETE', `${this.path()}/remembered-tools/${tool}`);
        item.remove();
      });
      item.append(forget);
      return item;
    }));
    $('remembered-head').hidden = tools.length === 0;
    $('options').returnValue = '';
    $('options').showModal();
  }

  show() {
    const conversation = this.conversation();
    $('budget').hidden = !conversation;
    if (!conversation) return;
    const { budget, spentUsd, continuable } = conversation;
    $('budget').textContent = budget ? `${usd(spentUsd)} of ${usd(budget.maxCostUsd)}` : spentUsd ? usd(spentUsd) : 'Budget';
    $('cut').hidden = !continuable;
  }
}
