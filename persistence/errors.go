package persistence

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/fsm"
	"parley/persistence/replica"
)

// The errors of a store. For writes, only ErrOutcomeUnknown leaves open whether anything was written; repeating the
// same append settles that.
var (
	// ErrNotLeader: another node owns the shard, errors.As finds a *NotLeaderError. Nothing was written.
	ErrNotLeader = replica.ErrNotLeader
	// ErrOutcomeUnknown: the write may or may not have happened.
	ErrOutcomeUnknown = replica.ErrOutcomeUnknown
	// ErrBusy: too many writes are waiting. Nothing was written.
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
	// ErrIncomplete: a blob was not committed, because pieces are missing or do not match the commit.
	ErrIncomplete = errors.New("pieces of the blob are missing")
	// ErrBlobTaken: a committed blob with that id exists, with other contents or owned by an entity. Nothing was
	// written.
	ErrBlobTaken = errors.New("the blob is committed already")
	// ErrNoChunk: the blob has no such piece, or the replica that was read does not have it yet.
	ErrNoChunk = errors.New("no such piece")
	// ErrConflict: a membership change expected other members. Nothing was done.
	ErrConflict = replica.ErrConflict
	// ErrUnsafe: a membership change would leave no majority of live voters. Nothing was done.
	ErrUnsafe = replica.ErrUnsafe
	// ErrStillMember: a replica was not dropped, because it may still be a member.
	ErrStillMember = replica.ErrStillMember
	// ErrTransferFailed: the other node did not take over the leadership.
	ErrTransferFailed = replica.ErrTransferFailed
	// ErrFull: the disk is nearly full. Nothing was written.
	ErrFull = errors.New("disk is nearly full, writes are refused")
	// ErrCorrupt: data read from the disk is damaged. The store has failed from then on.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrRefused is wrapped by Open's error for a directory that it does not open.
	ErrRefused = errors.New("data directory refused")
)

// NotLeaderError names the leader of a group, if one is known.
type NotLeaderError = replica.NotLeaderError

// refuse explains why a directory is not opened and what can be done.
func refuse(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w; restore the directory from a backup, or choose an empty one", ErrRefused, dir, oneLine(err))
}

// lineError is an error whose text has been made a single line.
type lineError struct {
	error
	text string
}

func (e lineError) Error() string { return e.text }
func (e lineError) Unwrap() error { return e.error }

// oneLine makes an error's text a single line and removes the marker that Pebble appends for programs.
func oneLine(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n<corruption detail carrier>", "")
	return lineError{error: err, text: strings.ReplaceAll(text, "\n", "; ")}
}

// readError wraps an error of a database read.
func readError(what string, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("read %s: %w: %w", what, ErrCorrupt, oneLine(err))
	}
	return fmt.Errorf("read %s: %w", what, err)
}
