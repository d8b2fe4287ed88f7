// What the event stream of the open conversation tells, shown. What is not told in full is read again.

import { toast } from './toast.js';

/** Events after which the page reads the conversation again: they say that something changed, not all of what. */
const telling = /^(session\.(truncated|status_idle|status_waiting)|action\.|message\.|file\.)/;

export class Events {
  /** parts: transcript, log, money, list, composer; conversation() that is open; status(to), head() and refresh() of the page. */
  constructor(parts) { Object.assign(this, parts); }

  take(event) {
    const conversation = this.conversation();
    if (event.seq === undefined) {
      this.live(event);
      return;
    }
    const replayed = event.seq <= (conversation.runtime?.lastEventSeq || 0);
    this.log.add(event);
    if (this.transcript.usage(event)) this.money.show();
    this.transcript.outcome(event, replayed);
    this.transcript.step(event, replayed);
    if (event.type === 'session.status_running') this.transcript.mode(event.run_id, event.data.mode);
    if (event.type === 'budget.reached') this.money.reached(event);
    if (event.type === 'user.message') this.composer.heard(conversation.id, event.data);
    // What was there when the conversation was read is on the page already.
    if (replayed) return;
    this[event.type]?.(event);
    if (telling.test(event.type)) this.refresh();
    if (event.type === 'session.status_idle') this.list.load().catch(toast);
  }

  /** Text of the answer as it grows. */
  live(event) {
    const { text, offset = 0 } = event.data || {};
    if (event.type === 'agent.message.snapshot') {
      this.log.endDeltas();
      this.log.add(event);
      this.status('running');
      this.transcript.text(event.run_id, text, 0);
    } else if (event.type === 'agent.message.delta') {
      this.log.addDelta(event);
      this.transcript.text(event.run_id, text, offset);
    }
  }

  end(event) {
    this.transcript.end(event.run_id);
    this.log.endDeltas();
  }

  answer(event, status) {
    this.transcript.answer(event.run_id, { id: event.data.message_id, role: 'assistant', content: event.data.content, status });
    this.log.endDeltas();
  }

  'user.message'({ run_id: runId, data }) {
    this.transcript.asked(runId, { id: data.message_id, role: 'user', content: data.content, files: data.files });
  }

  'session.status_running'(event) {
    this.conversation().continuable = false;
    this.status('running');
    this.transcript.begin(event.run_id);
  }

  'session.recovered'() {
    // A snapshot says what there is of the new attempt, before this or after.
    this.transcript.notice('The node that answered is gone; the answer starts again.');
  }

  'agent.message'(event) { this.answer(event, event.data.status); }

  'session.status_waiting'(event) {
    this.answer(event, 'requires_action');
    this.status('waiting');
  }

  'session.status_idle'(event) {
    this.end(event);
    this.conversation().continuable = Boolean(event.data.continuable);
    this.status('idle', event.data.stop_reason);
  }

  'session.truncated'() { this.transcript.truncated(); }

  'session.usage'({ data }) {
    if (data.spent_usd !== undefined) this.conversation().spentUsd = data.spent_usd;
    this.money.show();
  }

  'session.updated'({ data }) {
    Object.assign(this.conversation(), data);
    this.head();
    this.list.load().catch(toast);
  }
}
