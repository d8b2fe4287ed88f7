package audit

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/proto/auditpb"
)

const (
	maxChanges = 16      // of a request
	maxShown   = 4 << 10 // bytes of a record, as it is shown
)

// Notes are what a request changed, taken while it is carried out. The zero value is empty. They are safe for concurrent use.
type Notes struct {
	mu        sync.Mutex
	changes   []*auditpb.Change
	truncated bool
	actor     Actor
}

// Actor is on whose behalf something was done, where no caller was established: of a sign-in, for example.
type Actor struct{ TenantID, ProjectID, UserID, Email, Role string }

type notesKey struct{}

// With returns a context in which changes of records are noted.
func With(ctx context.Context, notes *Notes) context.Context {
	return context.WithValue(ctx, notesKey{}, notes)
}

func from(ctx context.Context) *Notes {
	notes, _ := ctx.Value(notesKey{}).(*Notes)
	return notes
}

// Changed notes that a record was written; nil = it did not or does not exist. Without notes in the context it does nothing.
func Changed(ctx context.Context, record, id string, before, after proto.Message) {
	notes := from(ctx)
	if notes == nil || unshown(record) {
		return
	}
	id = idOf(id, before, after)
	change := &auditpb.Change{Record: record, Id: clip(id), Before: show(before), After: show(after)}
	if change.GetBefore() == change.GetAfter() && change.GetBefore() != "" {
		change.Before, change.After = "", `{"changed":"hidden"}` // something that is not shown
		if before != nil && after != nil && proto.Equal(before, after) {
			return
		}
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if notes.actor.TenantID == "" {
		notes.actor.TenantID = tenantOf(record, id, after, before)
	}
	if len(notes.changes) == maxChanges {
		notes.truncated = true
		return
	}
	notes.changes = append(notes.changes, change)
}

// ActsFor notes who a request without an established caller acts for.
func ActsFor(ctx context.Context, actor Actor) {
	if notes := from(ctx); notes != nil {
		notes.mu.Lock()
		defer notes.mu.Unlock()
		notes.actor = actor
	}
}

// Taken returns the notes.
func (n *Notes) Taken() (changes []*auditpb.Change, truncated bool, actor Actor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes, n.truncated, n.actor
}
