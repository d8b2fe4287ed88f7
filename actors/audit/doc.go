// Package audit holds the rules of a tenant's audit trail: a chain of rows (package actors/core/audit), one entity for each tenant.
// Since it takes one command at a time, the chain has one order and no fork, however many nodes write.
//
// A request that changes something is written down as pending before it is carried out, and as a row of the chain when its outcome
// is known. One whose node is gone meanwhile becomes a row with the outcome unknown when its time is over: no change is without a
// row. A writer numbers its batches, so one that is sent twice is taken once.
//
// Rows go when they are older than they are kept, or when there are too many. They go in runs, up to a mark that the state has taken
// of a row before, which is then the checkpoint: the hash with which the rest of the chain begins.
//
// The head holds what is pending and the marks, a bounded number of each; rows are items by their number. Events are not kept.
package audit
