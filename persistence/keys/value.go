package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Values begin with what the state machine compares, in fixed places, so that it never parses the rest.

var errValue = errors.New("keys: value cut off")

// HeadPrefix is the length of what stands before an entity's own head bytes: seq and epoch.
const HeadPrefix = 16

// AppendHeadValue appends a head's value: seq, epoch, the entity's own bytes.
func AppendHeadValue(dst []byte, seq, epoch uint64, head []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, seq)
	dst = binary.BigEndian.AppendUint64(dst, epoch)
	return append(dst, head...)
}

// HeadFields reads the fixed fields of a head's value; the entity's own bytes are value[HeadPrefix:].
func HeadFields(value []byte) (seq, epoch uint64, err error) {
	if len(value) < HeadPrefix {
		return 0, 0, fmt.Errorf("%w: head of %d bytes", errValue, len(value))
	}
	return binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:]), nil
}

// AppendRecordValue appends a directory record's value: version, then the record's own bytes.
func AppendRecordValue(dst []byte, version uint64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, version), value...)
}

// RecordFields reads a directory record's value. The own bytes share its memory.
func RecordFields(value []byte) (version uint64, own []byte, err error) {
	if len(value) < 8 {
		return 0, nil, fmt.Errorf("%w: record of %d bytes", errValue, len(value))
	}
	return binary.BigEndian.Uint64(value), value[8:], nil
}

// AppendCountValue appends a counter's value.
func AppendCountValue(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// CountField reads a counter's value.
func CountField(value []byte) (int64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: counter of %d bytes", errValue, len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}
