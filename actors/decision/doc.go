// Package decision holds the log of what the permission engine refused, and of what shields and guardrails decided (verdicts).
//
// An entity is a batch: the refusals of one node within a second, of any tenants, written by one append (package
// httpedge/permission collects them). So a flood of refused requests is no flood of appends, and the batches of a busy tenant are
// spread over all shards. A batch is written once, is found in a list of each tenant that it concerns, and is removed when it is due.
//
// The id of a decision is the id of its batch and its number in it, so it leads to where it is kept.
package decision
