// Package queue is the rules of the queue of a project's background runs: how many may run at a time in the whole cluster,
// how many may wait, and who is next (first come, first served).
//
// What a run has, a place to run or one to wait in, it has for a time (Limits.Lease) and keeps by asking for it again: a run
// that was lost holds nobody up for ever. A run that runs already and asks for a place gets one even when there is none
// left; nobody else gets one until there are fewer than the limit again.
//
// When a place becomes free the next in line gets it in the same decision, and is told afterwards (effect Grant). Should
// the word be lost, the run finds out when it asks again.
//
// There is no queue while nobody runs or waits: the first run makes it, the last one removes it.
package queue
