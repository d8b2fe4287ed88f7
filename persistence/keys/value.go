package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Values begin with the fields that the state machine compares, at fixed offsets, so it never parses the rest.

var errValue = errors.New("keys: value cut off")

// HeadPrefix is the length of the fields before an entity's own head bytes: seq and epoch.
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

// RecordFields reads a directory record's value. own shares its memory.
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

// sumVersion is the format of a sum's value: the numbers as consecutive varints.
const sumVersion = 1

// AppendSumValue appends a sum's value.
func AppendSumValue(dst []byte, numbers []int64) []byte {
	dst = append(dst, sumVersion)
	for _, n := range numbers {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// SumFields appends the numbers of a sum's value to dst.
func SumFields(dst []int64, value []byte) ([]int64, error) {
	if len(value) == 0 || value[0] != sumVersion {
		return dst, fmt.Errorf("%w: sum of %d bytes, or of another form", errValue, len(value))
	}
	for value = value[1:]; len(value) > 0; {
		n, size := binary.Varint(value)
		if size <= 0 {
			return dst, fmt.Errorf("%w: a number of a sum", errValue)
		}
		dst, value = append(dst, n), value[size:]
	}
	return dst, nil
}

// AddNumbers adds deltas to numbers element by element and returns numbers, extended if there are more deltas.
// Overflows saturate.
func AddNumbers(numbers, deltas []int64) []int64 {
	if more := len(deltas) - len(numbers); more > 0 {
		numbers = append(numbers, make([]int64, more)...)
	}
	to := numbers[:len(deltas)]
	for i, delta := range deltas {
		n := to[i]
		sum := n + delta
		if (sum^n)&(sum^delta) < 0 { // both have the sign that their sum lacks
			sum = math.MaxInt64 ^ n>>63
		}
		to[i] = sum
	}
	return numbers
}
