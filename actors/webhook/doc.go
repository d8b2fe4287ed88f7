// Package webhook is the deliveries of webhook endpoints: the rules. An endpoint itself is a record (package subscription), whose id
// its deliveries share; the attempts are made by a courier (package courier).
//
//	turn ends ──► row in the shard's outbox (same append) ──► outbox worker ──► Accept ──► delivery, pending ──► courier ──► receiver
//	                                                                                   ▲      │ Report
//	                                                                                   └──────┴──► delivered, failed
//
// The head is small whatever an endpoint is told; deliveries are rows: pending ones by the time at which they are due, the others by
// their number. Rules see only their head, so the courier, which reads the rows, sends them along with what it reports. Nobody else
// changes pending rows; what changes settled ones (Redeliver, RedeliverFailed, Trim) carries the revision at which they were read.
//
// # Nothing lost, nothing told twice but by a retry
//
// The outbox worker gives messages in batches and removes the rows once they are accepted. After a crash in between they come
// again: the head remembers the events of each shard's batches until a batch says that the rows before it are gone (fresh). It is written
// with each batch, so it remembers eight bytes of an event. A row's position would not do: rows may be committed in another order
// than they were given their positions. A batch of a former outbox worker, or one that was overtaken, is refused, by epoch and number.
//
// A batch is an append here, and so is the removal of rows there. So what comes within moments of a batch waits to share the next one.
//
// An attempt that was made and not reported is made again, with the same event id.
//
// # Order
//
// Deliveries of one conversation are sent one after another. One that waits for a retry is overtaken: attempts go on for days.
//
// # What the record says
//
// Whether it fails and why it was disabled is found out here and written there by the courier: a wish, kept until it is told that it
// was carried out. A wish is about one generation of the record and is dropped if a person has changed that since.
package webhook
