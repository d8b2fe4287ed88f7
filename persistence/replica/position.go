package replica

import "github.com/cockroachdb/pebble/v2"

// Position is a place in the log of a group.
type Position struct{ Index, Term uint64 }

// Position returns the log position that the group's state in r is the result of. r must be consistent: a snapshot of
// the database. Index is 0 while there is no complete state: the node has no replica, or it waits for its first
// snapshot, or it is installing one.
func (d *Driver) Position(r pebble.Reader, group GroupID) (Position, error) {
	keys := keysOf(d.cfg.KeyPrefix, group)
	intent, err := getRow(r, keys.row(kindIntent))
	if err != nil || intent != nil {
		return Position{}, err
	}
	row, err := getRow(r, keys.row(kindApplied))
	if err != nil || row == nil {
		return Position{}, err
	}
	at, err := parsePosition("applied", row)
	return Position{Index: at.index, Term: at.term}, err
}
