// Package allowance holds the rules by which a tenant's calls share what its policies allow (package actors/core/quota): requests,
// tokens, files, their bytes and money within windows, files and reported sessions that are kept, and calls that are on their way at once. One entity stands for a tenant and takes one command at a time, so limits hold
// however many calls are made at once on however many nodes.
//
// # Money
//
// A call is let in with as much as it may cost at most, and holds that until it is settled with what it did cost. A limit is therefore
// overspent by no more than calls cost beyond what they held: their output is capped by it, so that is what an estimate of their input
// was too low by, less than a metering step.
//
// A call is refused only if what is left of a limit, all that is held included, does not pay for what it needs: its input and a first
// piece of output. Where only running calls stand in the way it waits in line for one of them to be settled. What is left when nobody
// else holds any is its own, even if it may cost more. One that has waited for a while is hurried: it takes what is free as soon as that
// pays for what it needs. The line is in the order of arrival, among calls that share a limit.
//
// # Files
//
// Files are let in with their number and bytes, and count from then on; what was not kept is given back. One that still comes asks again
// with what came of it, so that what is stored was let in before, and counts whole in the window of its last piece, as if its size had been
// known.
//
// # Places
//
// How many calls are on their way at once (Unit_MOMENT) is not counted either: it is how many run, whose lease is not over. One beyond that is
// refused, and may be tried again at once; nothing is kept of it.
//
// # What is kept
//
// Quotas of all files, and reported sessions, that are kept (in no window) are not counted here: deleting a file in its shard is all that
// frees it. Each shard has counters (packages actors/core/attachment, actors/trace), of the same append as the file. A node reads where the allowance is, then adds the counters up,
// then asks to be let in with both. Beside what the counters said the allowance holds what others bring that are not settled, and what was
// settled since it was read: both together are never less than what there is, for a file is in its shard before its call is settled. They
// may be more: then the node counts again, before a call is refused.
//
// # Nodes that die
//
// A call is heard of when it asks, and when its node says that it still runs, or waits: every third of its lease. Who waits and is unheard
// of for half of its lease is passed over, and keeps its place in line until the lease is over: of a dead node nobody is let in after that,
// and whoever is let in has half of a lease to be renewed in. What calls of a dead node hold is therefore free, at the latest, a lease after
// its death, but for what they need (their input and a first piece of output): their models most likely charged that, so it counts as spent.
// They are remembered for longer: a node that was only cut off settles its calls when it is back, and what they did cost is counted instead.
// A call that is not known was settled, so settling again changes nothing.
//
// As many calls may run as may wait, and as many are remembered; those do not count among the calls that run. Where more are over, those whose
// lease was over first are forgotten before their time: what they need stays counted as spent, and what they did cost, if their node
// is back, is not counted in its place. If it still runs them they hold nothing, and are not among those at once.
//
// What a call held whose lease is over may be another's. A node that was paused before it knew that its call was let in asks again: the call
// has not begun, and is decided on anew, with nothing spent.
//
// states.md has the state table.
package allowance
