package replica

import "github.com/cockroachdb/pebble/v2"

// Position is a place in the log of a group.
type Position struct{ Index, Term uint64 }

// Position is where the log of a group stands that the state in r is the result of. r must show one moment: a snapshot of the database. Index is 0
// while there is no whole state: the group is not held, waits for its first snapshot, or is installing one.
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
