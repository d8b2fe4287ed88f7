package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
)

// SumQuery selects rows of numbers of one name.
type SumQuery struct {
	Name     string
	From, To string // members: From inclusive, To exclusive, empty To is open
	// Limit bounds the rows; 0 or less reads nothing. To continue, set From to the last member with "\x00" appended.
	Limit int
	// Head is how many of a member's first bytes VisitSums shows apart.
	Head int
}

func (q *SumQuery) has(member string) bool { return member >= q.From && (q.To == "" || member < q.To) }

// SumRow is a row of numbers, without trailing zeros. It is empty where what was packed and what was added later are zero together.
type SumRow struct {
	Member string
	Values []int64
}

// Value returns the number at an index, 0 behind the end of the row.
func (r SumRow) Value(i int) int64 {
	if i >= len(r.Values) {
		return 0
	}
	return r.Values[i]
}

// Sums reads the first rows of a query by member, each added up over the shards.
func Sums(db pebble.Reader, shards []uint32, q SumQuery) ([]SumRow, error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	parts := make([][]SumRow, 0, len(shards))
	for _, group := range shards {
		rows, err := shardSums(db, group, q)
		if err != nil {
			return nil, fmt.Errorf("read sums: %w", err)
		}
		parts = append(parts, rows)
	}
	return MergeSums(parts, q.Limit), nil
}

// MergeSums adds up the first rows of several shards. If each part holds the first limit rows of its shards, the first
// limit rows of the result are complete: any row of a shard that sorts before one of them is in that shard's part.
func MergeSums(parts [][]SumRow, limit int) []SumRow {
	if len(parts) == 1 {
		return parts[0][:min(limit, len(parts[0]))]
	}
	rows := slices.Concat(parts...)
	slices.SortStableFunc(rows, func(a, b SumRow) int { return cmp.Compare(a.Member, b.Member) })
	merged := rows[:0]
	for _, row := range rows {
		if last := len(merged) - 1; last >= 0 && merged[last].Member == row.Member {
			merged[last].Values = keys.AddNumbers(merged[last].Values, row.Values)
			continue
		}
		merged = append(merged, row)
	}
	return merged[:min(limit, len(merged))]
}

func shardSums(db pebble.Reader, group uint32, q SumQuery) ([]SumRow, error) {
	var packed, rows []SumRow
	err := visitShard(db, group, q, shardVisit{
		pack: func(p *keys.PackReader, inside bool) error {
			if len(packed) >= q.Limit {
				return ErrEnough
			}
			first := len(packed)
			err := p.Each(func(head, tail []byte, values []int64) error {
				if member := string(head) + string(tail); inside || q.has(member) {
					packed = append(packed, SumRow{Member: member, Values: slices.Clone(values)})
				}
				return nil
			})
			slices.SortFunc(packed[first:], func(a, b SumRow) int { return cmp.Compare(a.Member, b.Member) })
			return err
		},
		row: func(member, value []byte) error {
			if len(rows) >= q.Limit {
				return ErrEnough
			}
			numbers, err := keys.SumFields(nil, value)
			rows = append(rows, SumRow{Member: string(member), Values: numbers})
			return err
		},
	})
	merged := MergeSums([][]SumRow{packed, rows}, q.Limit)
	for i := range merged {
		merged[i].Values = WithoutZeros(merged[i].Values)
	}
	return merged, err
}

// SumNames visits the names of a shard's sums with a prefix, with the first member of each that is in no pack.
func SumNames(db pebble.Reader, group uint32, prefix string, visit func(name, first string) error) error {
	return names(db, keys.AppendAllSums(nil, group), prefix, visit)
}

// names visits the names with a prefix below the prefix of their kind of key, with the tail of the first key of each.
func names(db pebble.Reader, all []byte, prefix string, visit func(name, first string) error) (err error) {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: all, UpperBound: keys.Successor(all)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for valid := iter.First(); valid; {
		key, err := keys.Decode(iter.Key())
		if err != nil {
			return err
		}
		if strings.HasPrefix(key.Name, prefix) {
			if err := visit(key.Name, string(key.Tail)); err != nil {
				return err
			}
		}
		last := iter.Key()
		valid = iter.SeekGE(keys.Successor(last[:len(last)-len(key.Tail)]))
	}
	return iter.Error()
}

// WithoutZeros is numbers without the zeros at their end.
func WithoutZeros(numbers []int64) []int64 {
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	return numbers
}

// SpreadQuery selects rows of a list by their score: from From on up to To (exclusive).
type SpreadQuery struct {
	List     string
	From, To int64
	Unit     int64 // above 0; rows with scores from n*Unit up to (n+1)*Unit are counted together, as n
}

// Spread counts rows of a list by their score. It reads no more than their keys. visit is called for each, so that a reader can end.
func Spread(db pebble.Reader, shards []uint32, q SpreadQuery, visit func() error) (map[int64]int64, error) {
	counts := map[int64]int64{}
	for _, group := range shards {
		prefix := keys.AppendList(nil, group, q.List)
		bounds := pebble.IterOptions{
			LowerBound: keys.AppendListing(nil, group, q.List, q.From, ""), UpperBound: keys.AppendListing(nil, group, q.List, q.To, ""),
		}
		if q.From >= q.To {
			break
		}
		if err := eachRow(db, &bounds, func(key, _ []byte) error {
			score, _, err := keys.ListingTail(key[len(prefix):])
			if err != nil {
				return err
			}
			counts[floor(score, q.Unit)]++
			return visit()
		}); err != nil {
			return nil, fmt.Errorf("count list: %w", err)
		}
	}
	return counts, nil
}

func floor(n, unit int64) int64 {
	if n < 0 && n%unit != 0 {
		return n/unit - 1
	}
	return n / unit
}

// eachRow visits the rows between bounds in the order of their keys.
func eachRow(db pebble.Reader, bounds *pebble.IterOptions, visit func(key, value []byte) error) (err error) {
	iter, err := db.NewIter(bounds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for valid := iter.First(); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(iter.Key(), value); err != nil {
			return err
		}
	}
	return iter.Error()
}
