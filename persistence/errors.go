package persistence

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/fsm"
	"parley/persistence/replica"
)

// What a store answers besides results. Those of writes say whether anything was written: only ErrOutcomeUnknown leaves
// it open, and repeating the same append settles it.
var (
	// ErrNotLeader: another node owns the shard, errors.As finds a *NotLeaderError. Nothing was written.
	ErrNotLeader = replica.ErrNotLeader
	// ErrOutcomeUnknown: the write may have been written or not.
	ErrOutcomeUnknown = replica.ErrOutcomeUnknown
	// ErrBusy: too many writes wait already. Nothing was written.
	ErrBusy = replica.ErrBusy
	// ErrTooLarge: the write is above Options.MaxProposalBytes. Nothing was written.
	ErrTooLarge = replica.ErrTooLarge
	// ErrFailed: a write or sync of the disk failed; there are no writes until restart. Nothing was written.
	ErrFailed = replica.ErrFailed
	// ErrStopped: the store is stopped, or not started.
	ErrStopped = replica.ErrStopped
	// ErrUnknownGroup: there is no such shard.
	ErrUnknownGroup = replica.ErrUnknownGroup
	// ErrInvalid: the write breaks a limit of the format. Nothing was written.
	ErrInvalid = fsm.ErrLimit
	// ErrIncomplete: a blob is not committed, because pieces of it are missing or are not what the commit says.
	ErrIncomplete = errors.New("pieces of the blob are missing")
	// ErrBlobTaken: there is a committed blob of that id, which is another one or belongs to an entity. Nothing was
	// written.
	ErrBlobTaken = errors.New("the blob is committed already")
	// ErrNoChunk: there is no such piece of a blob, or not yet at the replica that was read.
	ErrNoChunk = errors.New("no such piece")
	// ErrConflict: a change of members expected other ones. Nothing was done.
	ErrConflict = replica.ErrConflict
	// ErrUnsafe: a change of members would leave no majority of live voters. Nothing was done.
	ErrUnsafe = replica.ErrUnsafe
	// ErrStillMember: a replica is not dropped, because it may still count.
	ErrStillMember = replica.ErrStillMember
	// ErrTransferFailed: the leadership was not taken over.
	ErrTransferFailed = replica.ErrTransferFailed
	// ErrFull: the disk is nearly full. Nothing was written.
	ErrFull = errors.New("disk is nearly full, writes are refused")
	// ErrCorrupt: what was read from the disk is damaged. The store is failed from then on.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrRefused is wrapped by what Open says of a directory it does not open.
	ErrRefused = errors.New("data directory refused")
)

// NotLeaderError names the leader of a group, if one is known.
type NotLeaderError = replica.NotLeaderError

// refuse says why a directory is not opened and what can be done.
func refuse(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w; restore the directory from a backup, or choose an empty one", ErrRefused, dir, oneLine(err))
}

// lineError is an error whose text was made one line.
type lineError struct {
	error
	text string
}

func (e lineError) Error() string { return e.text }
func (e lineError) Unwrap() error { return e.error }

// oneLine takes out of an error's text what Pebble puts behind it for programs.
func oneLine(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n<corruption detail carrier>", "")
	return lineError{error: err, text: strings.ReplaceAll(text, "\n", "; ")}
}

// readError wraps what a read of the database returned.
func readError(what string, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("read %s: %w: %w", what, ErrCorrupt, oneLine(err))
	}
	return fmt.Errorf("read %s: %w", what, err)
}
