// The official libraries, unchanged, on deliveries as a receiver got them: the raw body and the headers, one delivery each line of the
// input. Each prints one line of JSON.
//
//   node webhooks.mjs <secret>
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';

const [secret] = process.argv.slice(2);
const stripe = new Stripe('sk_test_unused');
const standard = new Webhook(secret);

for await (const line of createInterface({ input: process.stdin })) {
  const { body, headers } = JSON.parse(line);
  let error = null;
  try {
    const event = stripe.webhooks.constructEvent(body, headers['X-Service-Signature'], secret);
    assert.deepEqual(event, standard.verify(body, {
      'webhook-id': headers['Webhook-Id'], 'webhook-timestamp': headers['Webhook-Timestamp'], 'webhook-signature': headers['Webhook-Signature'],
    }));
    assert.equal(event.id, headers['Webhook-Id']);
    assert.equal(event.type, headers['X-Service-Event']);
    const forged = body.replace('"type"', '"Type"');
    assert.throws(() => stripe.webhooks.constructEvent(forged, headers['X-Service-Signature'], secret));
    assert.throws(() => standard.verify(forged, {
      'webhook-id': headers['Webhook-Id'], 'webhook-timestamp': headers['Webhook-Timestamp'], 'webhook-signature': headers['Webhook-Signature'],
    }));
    assert.throws(() => stripe.webhooks.constructEvent(body, headers['X-Service-Signature'], 'whsec_' + 'A'.repeat(44)));
  } catch (failure) {
    error = String(failure);
  }
  console.log(JSON.stringify({ id: headers['Webhook-Id'], error }));
}
