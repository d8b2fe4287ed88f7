package machinetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/proto/logpb"
)

// Rows is what one shard stores of its entities, in memory.
type Rows struct {
	Items    map[Item]string
	Listings map[Place]string
	Counts   map[string]int64
	Blobs    map[string]Blob // committed, by id
	Sums     map[Sum][]int64
}

// Sum is the key of a row of numbers.
type Sum struct {
	Name   string
	Member string
}

// Blob is a file's bytes as far as an append knows them.
type Blob struct {
	Owner  string
	Size   int64
	Record string
}

// Item is the key of an entity's row.
type Item struct {
	Table uint32
	Key   string
}

// Place is a place in a sorted list.
type Place struct {
	List   string
	Score  int64
	Member string
}

// NewRows returns an empty store.
func NewRows() *Rows {
	return &Rows{Items: map[Item]string{}, Listings: map[Place]string{}, Counts: map[string]int64{}, Blobs: map[string]Blob{}, Sums: map[Sum][]int64{}}
}

// Apply applies an append as a replica does, and complains where that would leave storage wrong for ever: a place
// taken twice or given up without being held, a counter below zero, a blob likewise, a row of numbers that no limit of
// storage admits or that falls.
func (r *Rows) Apply(change *logpb.Append) error {
	for _, item := range change.GetItems() {
		key := Item{item.GetTable(), string(item.GetKey())}
		if item.GetDelete() {
			delete(r.Items, key)
			continue
		}
		r.Items[key] = string(item.GetValue())
	}
	for _, listing := range change.GetListings() {
		place := Place{listing.GetList(), listing.GetScore(), listing.GetMember()}
		_, held := r.Listings[place]
		if held != listing.GetDelete() {
			return fmt.Errorf("place %v: delete is %v and it was held: %v", place, listing.GetDelete(), held)
		}
		if listing.GetDelete() {
			delete(r.Listings, place)
			continue
		}
		r.Listings[place] = string(listing.GetValue())
	}
	for _, count := range change.GetCounts() {
		r.Counts[count.GetName()] += count.GetDelta()
		switch now := r.Counts[count.GetName()]; {
		case now < 0:
			return fmt.Errorf("count %s fell to %d", count.GetName(), now)
		case now == 0:
			delete(r.Counts, count.GetName())
		}
	}
	if err := r.applySums(change.GetSums()); err != nil {
		return err
	}
	if change.GetDeleteEntity() {
		clear(r.Items)
		clear(r.Blobs) // they go with their owner
	}
	return r.applyBlobs(change.GetBlobs())
}

// applySums adds up. Rows of numbers belong to nobody, and stay when an entity goes.
func (r *Rows) applySums(sums []*logpb.Sum) error {
	const longest, widest = 255, 16
	for _, sum := range sums {
		key := Sum{sum.GetName(), sum.GetMember()}
		if len(key.Name) > longest || len(key.Member) > longest || len(sum.GetDeltas()) > widest || len(sum.GetDeltas()) == 0 {
			return fmt.Errorf("sum %v of %d numbers is none that storage takes", key, len(sum.GetDeltas()))
		}
		now := r.Sums[key]
		for i, delta := range sum.GetDeltas() {
			if delta < 0 {
				return fmt.Errorf("sum %v falls by %d", key, delta)
			}
			if i == len(now) {
				now = append(now, 0)
			}
			now[i] += delta
		}
		r.Sums[key] = now
	}
	return nil
}

// applyBlobs complains of a blob that is committed twice or removed without being there.
func (r *Rows) applyBlobs(changes []*logpb.BlobChange) error {
	const piece = 256 << 10
	for _, change := range changes {
		_, held := r.Blobs[change.GetId()]
		if held != change.GetDelete() {
			return fmt.Errorf("blob %s: delete is %v and it was held: %v", change.GetId(), change.GetDelete(), held)
		}
		if change.GetDelete() {
			delete(r.Blobs, change.GetId())
			continue
		}
		if want := (change.GetSize() + piece - 1) / piece; int64(change.GetChunks()) != want {
			return fmt.Errorf("blob %s: %d bytes in %d pieces", change.GetId(), change.GetSize(), change.GetChunks())
		}
		r.Blobs[change.GetId()] = Blob{Owner: change.GetOwner(), Size: change.GetSize(), Record: string(change.GetRecord())}
	}
	return nil
}

// String prints the rows in order. A value is shown by its size: what it means is the entity's own.
func (r *Rows) String() string {
	var b strings.Builder
	items := slices.SortedFunc(maps.Keys(r.Items), func(x, y Item) int {
		if x.Table != y.Table {
			return int(x.Table) - int(y.Table)
		}
		return strings.Compare(x.Key, y.Key)
	})
	for _, key := range items {
		fmt.Fprintf(&b, "item %d %s (%d bytes)\n", key.Table, printable(key.Key), len(r.Items[key]))
	}
	places := slices.SortedFunc(maps.Keys(r.Listings), func(x, y Place) int {
		if x.List != y.List {
			return strings.Compare(x.List, y.List)
		}
		return strings.Compare(x.Member, y.Member)
	})
	for _, place := range places {
		fmt.Fprintf(&b, "list %s %d %s\n", place.List, place.Score, place.Member)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, "count %s %d\n", name, r.Counts[name])
	}
	sums := slices.SortedFunc(maps.Keys(r.Sums), func(x, y Sum) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Member, y.Member))
	})
	for _, key := range sums {
		fmt.Fprintf(&b, "sum %s %s %v\n", key.Name, key.Member, r.Sums[key])
	}
	for _, id := range slices.Sorted(maps.Keys(r.Blobs)) {
		fmt.Fprintf(&b, "blob %s of %s (%d bytes)\n", id, r.Blobs[id].Owner, r.Blobs[id].Size)
	}
	return b.String()
}

func printable(key string) string {
	for _, c := range key {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%x", key)
		}
	}
	return key
}

// marshal is what the shell adds to an append before it proposes it.
func marshal(change *logpb.Append, head proto.Message, events []proto.Message) error {
	for _, event := range events {
		raw, err := proto.Marshal(event)
		if err != nil {
			return fmt.Errorf("marshal event: %w", err)
		}
		change.Events = append(change.Events, raw)
	}
	raw, err := proto.Marshal(head)
	if err != nil {
		return fmt.Errorf("marshal head: %w", err)
	}
	change.Head = raw
	return nil
}
