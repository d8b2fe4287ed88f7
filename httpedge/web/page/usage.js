// What answers cost, as the event log tells it: tokens read and written, and money where the model has a price.

/** Money for people: cents; what is less is said so. */
export const cents = (amount) => (amount > 0 && amount < 0.01 ? 'under 1 cent' : '$' + (amount || 0).toFixed(2));

export const usd = (amount) => '$' + (amount || 0).toFixed(amount > 0 && amount < 0.01 ? 6 : 4);

/** The usage of the answers whose events were seen, by message id. */
export class Usages {
  constructor() { this.known = new Map(); }

  /** Takes an event; returns the id of the message about which something is known now. */
  take({ type, data }) {
    if (type !== 'agent.message' || !data.usage) return '';
    this.known.set(data.message_id, data.usage);
    return data.message_id;
  }

  /** What an answer cost: for people, or exactly. */
  words(id, exactly) {
    const usage = this.known.get(id);
    if (!usage) return '';
    if (!exactly) return usage.cost_usd === undefined ? '' : cents(usage.cost_usd);
    const tokens = `${usage.input_tokens.toLocaleString()} → ${usage.output_tokens.toLocaleString()} tokens`;
    return usage.cost_usd === undefined ? tokens : `${tokens} · ${usd(usage.cost_usd)}`;
  }
}
