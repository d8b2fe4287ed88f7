// Package index reads the lists, counters and sums that the state machine keeps beside the entities.
//
// A list is spread over all shards, each holding the rows of its own entities in order. Reading merges the shards: it
// reads a few rows of each, and more only where the page needs them. So the cost of a page depends on its length and
// the number of shards, never on the length of the list (an offset costs the rows that it skips).
//
// Rows are ordered by score, then member, then shard; descending is the exact reverse. A page is a consistent snapshot:
// all shards of a node share one database and one iterator. Callers merge the pages of shards on different nodes: the
// first rows of the whole are among the first rows of each.
//
// It writes nothing and knows nothing of leaders: the caller has checked that this node may answer.
package index

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
)

// Query selects a page of a list.
type Query struct {
	List       string
	Descending bool
	// After continues behind the last row of the page before; nil starts at the beginning. Where shards share a member,
	// all of its rows count as read.
	After *Cursor
	// Offset skips rows. It reads what it skips; a cursor does not.
	Offset int
	// Limit bounds the page; 0 or less reads nothing.
	Limit int
}

// Cursor names a row of a list.
type Cursor struct {
	Score  int64
	Member string
}

// Row is one row of a list.
type Row struct {
	Score  int64
	Member string
	Value  []byte
	Group  uint32
}

// List reads a page of a list, merged over the shards, which must be distinct.
func List(db pebble.Reader, shards []uint32, q Query) (rows []Row, err error) {
	if q.Limit <= 0 || len(shards) == 0 {
		return nil, nil
	}
	lower := keys.AppendShard(nil, slices.Min(shards))
	upper := keys.Successor(keys.AppendShard(nil, slices.Max(shards)))
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()

	n := len(shards)
	m := merge{query: q, iter: iter, heap: make([]*cursor, 0, n)}
	cursors := make([]cursor, n)
	want := firstRows(q.Offset+q.Limit, n)
	spans := make([]span, n*want)
	for i := range cursors {
		c := &cursors[i]
		c.group = shards[i]
		c.prefix = keys.AppendList(nil, c.group, q.List)
		c.want, c.rows = want, spans[i*want:i*want:(i+1)*want]
		c.start(q)
		if err := m.fill(c); err != nil {
			return nil, err
		}
		if !c.empty() {
			m.heap = append(m.heap, c)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m.page()
}

// firstRows is how many rows of a shard are read at first: its fair share of the page and some more, so that most pages
// need no second read.
func firstRows(page, shards int) int {
	if shards == 1 {
		return min(page, maxRows)
	}
	return min(page, page/shards*3/2+2, maxRows)
}

// maxRows bounds the rows of a shard that are in memory at once.
const maxRows = 256

// merge is a heap of shards by their next row.
type merge struct {
	query Query
	iter  *pebble.Iterator
	heap  []*cursor
}

func (m *merge) page() ([]Row, error) {
	rows := make([]Row, 0, min(m.query.Limit, maxRows))
	for skip := m.query.Offset; len(m.heap) > 0 && len(rows) < m.query.Limit; {
		c := m.heap[0]
		if skip > 0 {
			skip--
		} else {
			rows = append(rows, c.row())
		}
		c.next++
		if c.empty() && !c.done {
			if err := m.fill(c); err != nil {
				return nil, err
			}
		}
		if c.empty() {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		m.down(0)
	}
	return rows, nil
}

func (m *merge) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.before(m.heap[child], m.heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		m.heap[i], m.heap[first] = m.heap[first], m.heap[i]
		i = first
	}
}

// before compares tails, whose byte order is the order of score and member.
func (m *merge) before(a, b *cursor) bool {
	order := cmp.Or(bytes.Compare(a.tail(), b.tail()), cmp.Compare(a.group, b.group))
	if m.query.Descending {
		return order > 0
	}
	return order < 0
}

// cursor is a shard's place in the list and the rows read ahead.
type cursor struct {
	group  uint32
	prefix []byte
	seek   []byte // ascending: read from here; descending: read below here
	want   int
	done   bool

	buf  []byte
	rows []span
	next int
}

// span is where a row lies in buf: tail, then value.
type span struct{ start, value, end int }

func (c *cursor) empty() bool { return c.next == len(c.rows) }

func (c *cursor) tail() []byte {
	r := c.rows[c.next]
	return c.buf[r.start:r.value]
}

func (c *cursor) row() Row {
	r := c.rows[c.next]
	score, member, _ := keys.ListingTail(c.buf[r.start:r.value]) // fill has checked it
	return Row{Score: score, Member: string(member), Value: bytes.Clone(c.buf[r.value:r.end]), Group: c.group}
}

// start places the cursor at the query's beginning.
func (c *cursor) start(q Query) {
	switch {
	case q.After == nil && q.Descending:
		c.seek = keys.Successor(c.prefix)
	case q.After == nil:
		c.seek = c.prefix
	default:
		c.seek = keys.AppendListing(nil, c.group, q.List, q.After.Score, q.After.Member)
		if !q.Descending {
			c.seek = append(c.seek, 0)
		}
	}
}

// fill reads the next rows of a shard, twice as many each time.
func (m *merge) fill(c *cursor) error {
	c.buf, c.rows, c.next = c.buf[:0], c.rows[:0], 0
	seek, step := m.iter.SeekGE, m.iter.Next
	if m.query.Descending {
		seek, step = m.iter.SeekLT, m.iter.Prev
	}
	for valid := seek(c.seek); valid && bytes.HasPrefix(m.iter.Key(), c.prefix); valid = step() {
		if len(c.rows) == c.want {
			c.resume(m.query.Descending)
			return nil
		}
		if err := c.read(m.iter); err != nil {
			return err
		}
	}
	c.done = true
	if err := m.iter.Error(); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	return nil
}

func (c *cursor) read(iter *pebble.Iterator) error {
	tail := iter.Key()[len(c.prefix):]
	if _, _, err := keys.ListingTail(tail); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	value, err := iter.ValueAndErr()
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	start := len(c.buf)
	c.buf = append(append(c.buf, tail...), value...)
	c.rows = append(c.rows, span{start: start, value: start + len(tail), end: len(c.buf)})
	return nil
}

// resume records where the next fill begins.
func (c *cursor) resume(descending bool) {
	last := c.rows[len(c.rows)-1]
	c.seek = append(bytes.Clone(c.prefix), c.buf[last.start:last.value]...)
	if !descending {
		c.seek = append(c.seek, 0)
	}
	c.want = min(2*c.want, maxRows)
}

// Count sums counters over the shards.
func Count(db pebble.Reader, shards []uint32, names ...string) (int64, error) {
	var total int64
	var key []byte
	for _, group := range shards {
		for _, name := range names {
			key = keys.AppendCounter(key[:0], group, name)
			n, err := counter(db, key)
			if err != nil {
				return 0, fmt.Errorf("read counter: %w", err)
			}
			total += n
		}
	}
	return total, nil
}

func counter(db pebble.Reader, key []byte) (int64, error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := keys.CountField(value)
	return n, errors.Join(err, closer.Close())
}
