package replica

import "github.com/cockroachdb/pebble/v2"

// GroupID names a raft group: 0 is the directory, 1..N are the conversation shards.
type GroupID uint32

// NodeID names a node permanently: it votes under this number. 0 means "no node".
type NodeID uint64

// Entry is one committed proposal.
type Entry struct {
	// Index is the place of the entry in the log of its group.
	Index uint64
	// Term is the term of the leader that appended it.
	Term uint64
	// Data is the proposal. It is shared with the log: read it during Apply, never keep or change it.
	Data []byte
}

// StateMachine applies committed entries. It is called from one goroutine.
type StateMachine interface {
	// Apply writes the effects of committed entries of one group into batch and returns one result per entry for the
	// local proposer. It must depend on nothing but the group's state and the entries, so that every replica computes
	// the same. The batch is write-only and also holds other groups' writes; Apply is called at most once per group and
	// batch, so the database shows the group as of its last Apply. It must write only inside the group's Span. The
	// batch is committed with the applied index in it, after Apply returns. An error fails the store; a refused entry
	// is a result instead.
	Apply(batch *pebble.Batch, group GroupID, entries []Entry) ([]any, error)
	// Span is the key range [start, end) of a group's state: what a snapshot holds and replaces. Spans of different groups do not
	// overlap, nor with Config.KeyPrefix.
	Span(group GroupID) (start, end []byte)
}
