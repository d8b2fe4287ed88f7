package keys

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// packVersion is the format of a pack's value. What follows it:
//
//	from                 beginning of the span
//	count, heads         the first bytes of members, ascending
//	groups, ascending    of members with the same tail behind their heads:
//	  tail, count
//	  total, size        only if there are several: their numbers added up; bytes of the rows that follow
//	  rows, ascending    index of the head, numbers
//
// Texts and numbers have their count before them; all counts are varints.
const packVersion = 1

// NumberedMember is a row of numbers and its member.
type NumberedMember struct {
	Member string
	Values []int64
}

// AppendPackValue appends a pack's value. Rows are ordered by member, without duplicates; the first head bytes of each are its head.
func AppendPackValue(dst []byte, from string, head int, rows []NumberedMember) []byte {
	dst = appendText(append(dst, packVersion), from)
	var heads []string
	at := make([]int, len(rows)) // of each row's head
	order := make([]int, len(rows))
	split := func(i int) (first, tail string) {
		n := min(head, len(rows[i].Member))
		return rows[i].Member[:n], rows[i].Member[n:]
	}
	for i := range rows {
		first, _ := split(i)
		if len(heads) == 0 || heads[len(heads)-1] != first {
			heads = append(heads, first)
		}
		at[i], order[i] = len(heads)-1, i
	}
	dst = binary.AppendUvarint(dst, uint64(len(heads)))
	for _, first := range heads {
		dst = appendText(dst, first)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		_, x := split(i)
		_, y := split(j)
		return strings.Compare(x, y)
	})
	var body []byte
	for len(order) > 0 {
		_, tail := split(order[0])
		var total []int64
		count := 0
		for body = body[:0]; count < len(order); count++ {
			row := order[count]
			if _, other := split(row); other != tail {
				break
			}
			total = AddNumbers(total, rows[row].Values)
			body = appendNumbers(binary.AppendUvarint(body, uint64(at[row])), rows[row].Values)
		}
		dst = binary.AppendUvarint(appendText(dst, tail), uint64(count))
		if count > 1 {
			dst = binary.AppendUvarint(appendNumbers(dst, total), uint64(len(body)))
		}
		dst, order = append(dst, body...), order[count:]
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func appendNumbers(dst []byte, numbers []int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(numbers)))
	for _, n := range numbers {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// PackReader reads a pack's value. What it returns shares the value's memory.
type PackReader struct {
	From  []byte   // beginning of the span
	Heads [][]byte // of its members, ascending

	rest []byte
	bad  bool
}

// ReadPack begins to read a pack's value.
func ReadPack(value []byte) (*PackReader, error) {
	r := &PackReader{rest: value}
	if len(value) == 0 || value[0] != packVersion {
		return nil, fmt.Errorf("%w: pack of %d bytes, or of another form", errValue, len(value))
	}
	r.rest = value[1:]
	r.From = r.text()
	for left := r.size(); left > 0; left-- {
		r.Heads = append(r.Heads, r.text())
	}
	return r, r.err()
}

func (r *PackReader) err() error {
	if r.bad {
		return fmt.Errorf("%w: a pack", errValue)
	}
	return nil
}

// size reads a count of what takes a byte each at least.
func (r *PackReader) size() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)-size) {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *PackReader) text() []byte {
	n := r.size()
	text := r.rest[:n:n]
	r.rest = r.rest[n:]
	return text
}

// head reads the index of a row's head.
func (r *PackReader) head() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n >= uint64(len(r.Heads)) {
		r.bad, r.rest = true, nil
		return -1
	}
	r.rest = r.rest[size:]
	return int(n)
}

// numbers reads a row's numbers. Most take a byte or two.
func (r *PackReader) numbers(dst []int64) []int64 {
	left := r.size()
	rest := r.rest
	for ; left > 0; left-- {
		var n uint64
		switch {
		case len(rest) > 0 && rest[0] < 0x80:
			n, rest = uint64(rest[0]), rest[1:]
		case len(rest) > 1 && rest[1] < 0x80:
			n, rest = uint64(rest[0]&0x7f)|uint64(rest[1])<<7, rest[2:]
		default:
			long, size := binary.Uvarint(rest)
			if size <= 0 {
				r.bad, r.rest = true, nil
				return dst
			}
			n, rest = long, rest[size:]
		}
		dst = append(dst, int64(n>>1)^-int64(n&1))
	}
	r.rest = rest
	return dst
}

// Each visits the members with their numbers, those with the same tail one after the other, ascending. The numbers are valid until visit
// returns.
func (r *PackReader) Each(visit func(head, tail []byte, values []int64) error) error {
	var values []int64
	for len(r.rest) > 0 {
		tail, count := r.text(), r.size()
		if count > 1 {
			values = r.numbers(values[:0])
			r.size()
		}
		for range count {
			n := r.head()
			if values = r.numbers(values[:0]); r.bad {
				break
			}
			if err := visit(r.Heads[n], tail, values); err != nil {
				return err
			}
		}
	}
	return r.err()
}

// addHeads adds a tail's rows to what each head has. values is for its use.
func (r *PackReader) addHeads(sums [][]int64, rows []byte, values []int64) {
	for of := (PackReader{Heads: r.Heads, rest: rows}); len(of.rest) > 0 && !r.bad; r.bad = of.bad {
		n := of.head()
		if values = of.numbers(values[:0]); !of.bad {
			sums[n] = AddNumbers(sums[n], values)
		}
	}
}

// Totals visits each tail with the numbers of all its members, added up, and then, in sum, each head with those of the members of
// whose tails visit wants them. The numbers are valid until visit returns.
func (r *PackReader) Totals(visit func(tail []byte, values []int64) (heads bool, err error), visitHead func(head []byte, values []int64)) error {
	var values []int64
	sums := make([][]int64, len(r.Heads))
	for len(r.rest) > 0 {
		tail, count := r.text(), r.size()
		var rows []byte
		n := 0
		if count == 1 {
			n = r.head()
		}
		values = r.numbers(values[:0])
		if count > 1 {
			rows = r.text()
		}
		if count == 0 || len(rows) < count && count > 1 {
			r.bad = true
		}
		if r.bad {
			break
		}
		switch heads, err := visit(tail, values); {
		case err != nil:
			return err
		case heads && count == 1:
			sums[n] = AddNumbers(sums[n], values)
		case heads:
			r.addHeads(sums, rows, values)
		}
	}
	for n, sum := range sums {
		if sum != nil && !r.bad {
			visitHead(r.Heads[n], sum)
		}
	}
	return r.err()
}
