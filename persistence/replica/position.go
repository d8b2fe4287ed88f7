package replica

import "github.com/cockroachdb/pebble/v2"

// Position is where the log of a group stands that the state in r is the result of. r must show one moment: a snapshot of the database. ok is false
// while there is no whole state: the group is not held, waits for its first snapshot, or is installing one.
func (d *Driver) Position(r pebble.Reader, group GroupID) (index, term uint64, ok bool, err error) {
	keys := keysOf(d.cfg.KeyPrefix, group)
	intent, err := getRow(r, keys.row(kindIntent))
	if err != nil || intent != nil {
		return 0, 0, false, err
	}
	row, err := getRow(r, keys.row(kindApplied))
	if err != nil || row == nil {
		return 0, 0, false, err
	}
	at, err := parsePosition("applied", row)
	return at.index, at.term, err == nil, err
}
