package index

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
)

// ErrEnough ends a visit, without an error.
var ErrEnough = errors.New("enough rows")

// shardVisit is what is called for the rows of a shard: for each pack that has a part in the range, inside if it has none outside, and
// for each row beside the packs. Both are of one moment.
type shardVisit struct {
	pack func(p *keys.PackReader, inside bool) error
	row  func(member, value []byte) error
}

func visitShard(db pebble.Reader, group uint32, q SumQuery, visit shardVisit) (err error) {
	if q.To != "" && q.From >= q.To {
		return nil
	}
	packs, err := packsIn(db, group, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, packs.Close()) }()
	if err = eachPack(packs, group, q, func(p *keys.PackReader, to string, _ []byte) error {
		return visit.pack(p, string(p.From) >= q.From && (q.To == "" || to <= q.To))
	}); err != nil {
		return err
	}
	prefix := keys.AppendSums(nil, group, q.Name)
	bounds := pebble.IterOptions{LowerBound: keys.AppendSum(nil, group, q.Name, q.From), UpperBound: keys.Successor(prefix)}
	if q.To != "" {
		bounds.UpperBound = keys.AppendSum(nil, group, q.Name, q.To)
	}
	rows, err := packs.Clone(pebble.CloneOptions{IterOptions: &bounds})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return eachIn(rows, func(key, value []byte) error { return visit.row(key[len(prefix):], value) })
}

// packsIn is over the packs of a name whose spans do not end before a range.
func packsIn(db pebble.Reader, group uint32, q SumQuery) (*pebble.Iterator, error) {
	return db.NewIter(&pebble.IterOptions{
		LowerBound: keys.AppendPack(nil, group, q.Name, q.From+"\x00"), UpperBound: keys.Successor(keys.AppendPacks(nil, group, q.Name)),
	})
}

// eachPack visits those of them that have a part in the range, with the ends of their spans and their values.
func eachPack(packs *pebble.Iterator, group uint32, q SumQuery, visit func(p *keys.PackReader, to string, value []byte) error) error {
	prefix := len(keys.AppendPacks(nil, group, q.Name))
	return eachIn(packs, func(key, value []byte) error {
		p, err := keys.ReadPack(value)
		if err != nil {
			return err
		}
		if q.To != "" && string(p.From) >= q.To {
			return ErrEnough // and so do those behind it: packs do not overlap
		}
		return visit(p, string(key[prefix:]), value)
	})
}

// eachIn visits the rows of an iterator in the order of their keys, until visit has enough.
func eachIn(iter *pebble.Iterator, visit func(key, value []byte) error) error {
	for valid := iter.First(); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		switch err := visit(iter.Key(), value); {
		case errors.Is(err, ErrEnough):
			return nil
		case err != nil:
			return err
		}
	}
	return iter.Error()
}

// SumVisitor is shown rows of numbers, each of which adds to what others have under the same member. What it is given is valid until it
// returns.
type SumVisitor interface {
	// Add is given a row, by the first bytes of its member and the rest.
	Add(head, tail []byte, values []int64)
	// AddTail is given the rows of a pack that differ in their heads only, added up, where all of the pack lies in the range. Its span begins
	// at from.
	AddTail(from, tail []byte, values []int64) (heads bool)
	// AddHead is given, added up, the rows with a head of those for which AddTail returned true.
	AddHead(head []byte, values []int64)
}

// VisitSums visits the rows of a name in one shard after the other, from a member up to another one (exclusive; empty = open): packs first,
// then what is in none. It ends with an error of goesOn, which is called for each.
func VisitSums(db pebble.Reader, shards []uint32, q SumQuery, visitor SumVisitor, goesOn func() error) error {
	var numbers []int64
	for _, group := range shards {
		if err := visitShard(db, group, q, shardVisit{
			pack: func(p *keys.PackReader, inside bool) error {
				if inside {
					return p.Totals(func(tail []byte, values []int64) (heads bool, err error) {
						return visitor.AddTail(p.From, tail, values), goesOn()
					}, visitor.AddHead)
				}
				return p.Each(func(first, tail []byte, values []int64) error {
					if q.has(string(first) + string(tail)) {
						visitor.Add(first, tail, values)
					}
					return goesOn()
				})
			},
			row: func(member, value []byte) (err error) {
				if numbers, err = keys.SumFields(numbers[:0], value); err != nil {
					return err
				}
				n := min(q.Head, len(member))
				visitor.Add(member[:n], member[n:], numbers)
				return goesOn()
			},
		}); err != nil {
			return fmt.Errorf("read sums: %w", err)
		}
	}
	return nil
}

// VisitRows visits the rows of a range that are in no pack, in one shard.
func VisitRows(db pebble.Reader, group uint32, q SumQuery, visit func(member []byte, values []int64) error) error {
	var numbers []int64
	return visitShard(db, group, q, shardVisit{
		pack: func(*keys.PackReader, bool) error { return ErrEnough },
		row: func(member, value []byte) (err error) {
			if numbers, err = keys.SumFields(numbers[:0], value); err != nil {
				return err
			}
			return visit(member, numbers)
		},
	})
}

// VisitPacks visits the packs of a shard that have a part in a range, with the ends of their spans and their values.
func VisitPacks(db pebble.Reader, group uint32, q SumQuery, visit func(p *keys.PackReader, to string, value []byte) error) (err error) {
	packs, err := packsIn(db, group, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, packs.Close()) }()
	return eachPack(packs, group, q, visit)
}

// PackNames visits the names of a shard's packs with a prefix, with the end of the first pack of each.
func PackNames(db pebble.Reader, group uint32, prefix string, visit func(name, first string) error) error {
	return names(db, keys.AppendAllPacks(nil, group), prefix, visit)
}
