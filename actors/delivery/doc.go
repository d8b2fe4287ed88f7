// Package delivery is the rules of deliveries: when the attempts to bring one message to one HTTP target are made, and when
// they end.
//
// A delivery is no entity of its own but a part of the entity that has something to tell, its owner: the owner's rules keep
// the deliverypb.Delivery in their state and call a Policy. So the append that stores what is told stores the delivery as well,
// and no crash comes between the two. Due times and results are the owner's commands, and the owner shows how far a
// delivery is.
//
//	New ──► Begin ──► attempt under way ──► Report ──► over: delivered, hopeless, or none left
//	          ▲                                │
//	          └──── due: backoff, or lost ◄────┘
//
// An attempt is stored before it is made, with the time after which it counts as lost. So each is made at least once, in case
// of doubt again with the same id, and Policy.Attempts times at most. A report of an attempt that counts as lost is ignored.
//
// Whoever owns the shard next does not wait for that time: it activates what is due until then (kit.Due.Ahead), and an owner whose
// rules find an attempt under way puts it off like one that failed (Lost). Where a shard moved from a live node, that tells the new owner what
// came of its attempts, before it would make them again. An owner with an attempt under way is busy, so that it is not
// read from storage while that is made here.
//
// An entity for each delivery, filled from an outbox of the owner, would cost two or three appends more and steps between which
// to be killed. What it would give instead, an order among the deliveries of many owners to one target, callbacks do not
// need: each tenant, and of that each target, has its share of the node's room (deliver.Lanes). Whoever needs the order of one endpoint keeps that
// endpoint's deliveries in one entity, oldest first, and begins the first.
package delivery
