package replica

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Rows of the driver, all under Config.KeyPrefix:
//
//	prefix 0                    the store: format, node
//	prefix 1 group kind         one row per group and kind
//	prefix 1 group kind index   the log entries
//
// Numbers are big-endian, so entries are in log order. Every value starts with the row format. A group with only a hard
// state row has no replica: it was dropped, or never got a state, and the row prevents voting twice in one term.
const (
	areaStore byte = 0
	areaGroup byte = 1

	kindHardState byte = 1
	kindStart     byte = 2
	kindApplied   byte = 3
	kindConfState byte = 4
	kindIntent    byte = 5
	kindEntry     byte = 16

	rowFormat byte = 1
	// storeFormat is the format of the store row. In format 1 it listed the groups, which were fixed.
	storeFormat byte = 2
)

// entryHeader is the length of what precedes the data in an entry row: format and type in one byte, and the term.
const entryHeader = 9

// position is a place in a log.
type position struct{ index, term uint64 }

// groupKeys builds the keys of one group.
type groupKeys struct{ prefix []byte }

func keysOf(prefix []byte, group GroupID) groupKeys {
	key := append(slices.Clone(prefix), areaGroup)
	return groupKeys{prefix: binary.BigEndian.AppendUint32(key, uint32(group))}
}

func storeKey(prefix []byte) []byte { return append(slices.Clone(prefix), areaStore) }

// groupArea returns the range of all rows of all groups.
func groupArea(prefix []byte) (start, end []byte) {
	start = append(slices.Clone(prefix), areaGroup)
	return start, prefixEnd(start)
}

func parseGroupKey(key []byte, area int) (GroupID, byte, error) {
	if len(key) < area+5 {
		return 0, 0, inconsistent("key %x is not of a group", key)
	}
	return GroupID(binary.BigEndian.Uint32(key[area:])), key[area+4], nil
}

func (k groupKeys) row(kind byte) []byte { return append(slices.Clone(k.prefix), kind) }

func (k groupKeys) entry(index uint64) []byte {
	key := make([]byte, k.entryLen())
	k.putEntry(key, index)
	return key
}

func (k groupKeys) entryLen() int { return len(k.prefix) + 9 }

func (k groupKeys) putEntry(key []byte, index uint64) {
	n := copy(key, k.prefix)
	key[n] = kindEntry
	binary.BigEndian.PutUint64(key[n+1:], index)
}

// entries is the range of all entry rows.
func (k groupKeys) entries() (start, end []byte) {
	return k.row(kindEntry), k.row(kindEntry + 1)
}

func (k groupKeys) entryIndex(key []byte) (uint64, error) {
	if len(key) != k.entryLen() {
		return 0, inconsistent("entry key %x has %d bytes", key, len(key))
	}
	return binary.BigEndian.Uint64(key[len(key)-8:]), nil
}

func putEntryRow(row []byte, e *raftpb.Entry) {
	row[0] = rowFormat<<4 | byte(e.GetType())
	binary.BigEndian.PutUint64(row[1:], e.GetTerm())
	copy(row[entryHeader:], e.GetData())
}

// parseEntryRow does not keep row.
func parseEntryRow(index uint64, row []byte) (*raftpb.Entry, error) {
	if len(row) < entryHeader || row[0]>>4 != rowFormat {
		return nil, inconsistent("entry %d is not a log entry", index)
	}
	e := &raftpb.Entry{
		Type:  raftpb.EntryType(row[0] & 0xf).Enum(),
		Index: &index,
		Term:  new(binary.BigEndian.Uint64(row[1:])),
	}
	if len(row) > entryHeader {
		e.Data = slices.Clone(row[entryHeader:])
	}
	return e, nil
}

func encodeNumbers(numbers ...uint64) []byte {
	row := make([]byte, 1, 1+8*len(numbers))
	row[0] = rowFormat
	for _, n := range numbers {
		row = binary.BigEndian.AppendUint64(row, n)
	}
	return row
}

func parseNumbers(name string, row []byte, numbers ...*uint64) error {
	if len(row) != 1+8*len(numbers) || row[0] != rowFormat {
		return inconsistent("%s row is malformed", name)
	}
	for i, n := range numbers {
		*n = binary.BigEndian.Uint64(row[1+8*i:])
	}
	return nil
}

func encodePosition(p position) []byte { return encodeNumbers(p.index, p.term) }

func parsePosition(name string, row []byte) (p position, err error) {
	return p, parseNumbers(name, row, &p.index, &p.term)
}

// hardState is raft's durable vote, by value.
type hardState struct{ term, vote, commit uint64 }

func encodeHardState(h hardState) []byte { return encodeNumbers(h.term, h.vote, h.commit) }

func parseHardState(row []byte) (h hardState, err error) {
	return h, parseNumbers("hard state", row, &h.term, &h.vote, &h.commit)
}

func encodeMessage(m proto.Message) ([]byte, error) {
	row, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{rowFormat}, m)
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	return row, nil
}

func parseMessage(name string, row []byte, m proto.Message) error {
	if len(row) == 0 || row[0] != rowFormat {
		return inconsistent("%s row is malformed", name)
	}
	if err := proto.Unmarshal(row[1:], m); err != nil {
		return inconsistent("%s row: %v", name, err)
	}
	return nil
}

func encodeStore(node NodeID) []byte {
	return binary.BigEndian.AppendUint64([]byte{storeFormat}, uint64(node))
}

// parseStore returns the node, and the groups that a row of format 1 lists.
func parseStore(row []byte) (NodeID, []GroupID, error) {
	if len(row) < 9 || (len(row)-1)%8 != 0 || row[0] == 0 || row[0] > storeFormat || row[0] == storeFormat && len(row) != 9 {
		return 0, nil, inconsistent("store row is malformed or of a newer format")
	}
	node := NodeID(binary.BigEndian.Uint64(row[1:]))
	var groups []GroupID
	for row = row[9:]; len(row) > 0; row = row[8:] {
		groups = append(groups, GroupID(binary.BigEndian.Uint64(row)))
	}
	return node, groups, nil
}

// prefixEnd is the first key after all keys that start with prefix; nil when there is none.
func prefixEnd(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
