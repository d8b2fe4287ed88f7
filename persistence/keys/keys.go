// Package keys is the layout of a shard's state on disk, and its codec.
//
// Every key begins with the space ('s', distinct from the log's keys), the layout's version and the shard, so the state
// of one shard is one span, which is counted, streamed to another node and dropped as a range. Below that:
//
//	entity   id, then head | items by (table, key) | events by seq | ids of its blobs: all its rows lie side by side
//	listing  list, score, member                                       ordered by score (negative too), then member
//	counter  name
//	record   collection, key                                           directory records
//	blob     id, then head | pieces by index                           bytes of files
//	sum      name, member                                              rows of numbers, ordered by member
//	pack     name, end of its span                                     rows of numbers of a span of members, see pack.go
//
// Invariants: numbers are big-endian, so byte order is number order; names are length-prefixed, so no name is a prefix
// of another and it may hold any bytes; ordered parts (item key, member, record key) are raw and come last. The layout
// of a version never changes: the golden test pins the bytes.
//
// It does no I/O and does not interpret values, beyond their leading fixed fields (see value.go).
package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	space   = 's'
	version = 1

	prefixLen = 2 + 4 // space, version, shard

	kindEntity  = 0x10
	kindListing = 0x20
	kindCounter = 0x30
	kindRecord  = 0x40
	kindBlob    = 0x50
	kindSum     = 0x60
	kindPack    = 0x70

	// Rows of an entity. Items come before events: reading the head and the first tables is one short scan however
	// long the history behind them.
	rowHead  = 0x01
	rowItem  = 0x02
	rowEvent = 0x03
	rowOwned = 0x04 // a blob that is deleted with the entity

	// Rows of a blob.
	rowBlobHead = 0x01
	rowChunk    = 0x02
)

// Limits of the parts of a key. Longer ones are refused before they are proposed.
const (
	MaxName  = 255  // entity id, list, counter, collection, name of sums: length in one byte
	MaxTable = 200  // item tables, 1..200
	MaxTail  = 1024 // item key, list member, record key
	MaxSum   = 255  // member of a sum, end of a pack
)

// Kind is the kind of a row.
type Kind uint8

// Kinds of rows.
const (
	Head Kind = iota + 1
	Item
	Event
	Listing
	Counter
	Record
	Owned
	BlobHead
	Chunk
	Sum
	Pack
)

var errKey = errors.New("keys: not a state key")

// AppendShard appends the prefix that all keys of a shard share.
func AppendShard(dst []byte, shard uint32) []byte {
	dst = append(dst, space, version)
	return binary.BigEndian.AppendUint32(dst, shard)
}

// Span returns the bounds of a shard's state: start inclusive, end exclusive.
func Span(shard uint32) (start, end []byte) {
	start = AppendShard(make([]byte, 0, prefixLen), shard)
	return start, Successor(start)
}

// AppendEntity appends the prefix that all rows of an entity share.
func AppendEntity(dst []byte, shard uint32, id string) []byte {
	return appendName(AppendShard(dst, shard), kindEntity, id)
}

// AppendHead appends the key of an entity's head.
func AppendHead(dst []byte, shard uint32, id string) []byte {
	return append(AppendEntity(dst, shard, id), rowHead)
}

// AppendEvents appends the prefix of an entity's events.
func AppendEvents(dst []byte, shard uint32, id string) []byte {
	return append(AppendEntity(dst, shard, id), rowEvent)
}

// AppendEvent appends the key of an event.
func AppendEvent(dst []byte, shard uint32, id string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendEvents(dst, shard, id), seq)
}

// AppendItems appends the prefix of a table of an entity's items.
func AppendItems(dst []byte, shard uint32, id string, table uint8) []byte {
	return append(AppendEntity(dst, shard, id), rowItem, table)
}

// AppendItem appends the key of an item.
func AppendItem(dst []byte, shard uint32, id string, table uint8, key []byte) []byte {
	return append(AppendItems(dst, shard, id, table), key...)
}

// AppendList appends the prefix of a list's rows.
func AppendList(dst []byte, shard uint32, list string) []byte {
	return appendName(AppendShard(dst, shard), kindListing, list)
}

// AppendListing appends the key of a list's row.
func AppendListing(dst []byte, shard uint32, list string, score int64, member string) []byte {
	return append(AppendScore(AppendList(dst, shard, list), score), member...)
}

// AppendScore appends a score so that byte order is number order, also for negative numbers.
func AppendScore(dst []byte, score int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(score)^(1<<63))
}

// AppendCounter appends the key of a counter.
func AppendCounter(dst []byte, shard uint32, name string) []byte {
	return appendName(AppendShard(dst, shard), kindCounter, name)
}

// AppendRecords appends the prefix of all directory records of a shard.
func AppendRecords(dst []byte, shard uint32) []byte {
	return append(AppendShard(dst, shard), kindRecord)
}

// AppendRecord appends the key of a directory record.
func AppendRecord(dst []byte, shard uint32, collection, key string) []byte {
	return append(appendName(AppendShard(dst, shard), kindRecord, collection), key...)
}

// AppendOwned appends the prefix of the rows that name an entity's blobs; the blob's id follows it.
func AppendOwned(dst []byte, shard uint32, id string) []byte {
	return append(AppendEntity(dst, shard, id), rowOwned)
}

// AppendBlob appends the prefix that all rows of a blob share.
func AppendBlob(dst []byte, shard uint32, id string) []byte {
	return appendName(AppendShard(dst, shard), kindBlob, id)
}

// AppendBlobHead appends the key of a blob's head.
func AppendBlobHead(dst []byte, shard uint32, id string) []byte {
	return append(AppendBlob(dst, shard, id), rowBlobHead)
}

// AppendChunk appends the key of a piece of a blob.
func AppendChunk(dst []byte, shard uint32, id string, index uint32) []byte {
	return binary.BigEndian.AppendUint32(append(AppendBlob(dst, shard, id), rowChunk), index)
}

// AppendSums appends the prefix of all sums of a name.
func AppendSums(dst []byte, shard uint32, name string) []byte {
	return appendName(AppendShard(dst, shard), kindSum, name)
}

// AppendAllSums appends the prefix of all sums of all names.
func AppendAllSums(dst []byte, shard uint32) []byte {
	return append(AppendShard(dst, shard), kindSum)
}

// AppendSum appends the key of a sum.
func AppendSum(dst []byte, shard uint32, name, member string) []byte {
	return append(AppendSums(dst, shard, name), member...)
}

// AppendPacks appends the prefix of all packs of a name.
func AppendPacks(dst []byte, shard uint32, name string) []byte {
	return appendName(AppendShard(dst, shard), kindPack, name)
}

// AppendAllPacks appends the prefix of all packs of all names.
func AppendAllPacks(dst []byte, shard uint32) []byte {
	return append(AppendShard(dst, shard), kindPack)
}

// AppendPack appends the key of the pack whose span ends before a member.
func AppendPack(dst []byte, shard uint32, name, end string) []byte {
	return append(AppendPacks(dst, shard, name), end...)
}

func appendName(dst []byte, kind byte, name string) []byte {
	dst = append(dst, kind, byte(len(name)))
	return append(dst, name...)
}

// Successor returns the first key after all keys that begin with the prefix. The prefix must hold a byte below 0xff,
// which every key of this package does.
func Successor(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// ListingTail splits the part behind a list's prefix into score and member. The member shares the tail's memory.
func ListingTail(tail []byte) (score int64, member []byte, err error) {
	if len(tail) < 8 {
		return 0, nil, fmt.Errorf("%w: listing tail of %d bytes", errKey, len(tail))
	}
	return int64(binary.BigEndian.Uint64(tail) ^ (1 << 63)), tail[8:], nil
}

// EventTail reads the part behind the prefix of an entity's events.
func EventTail(tail []byte) (seq uint64, err error) {
	if len(tail) != 8 {
		return 0, fmt.Errorf("%w: event tail of %d bytes", errKey, len(tail))
	}
	return binary.BigEndian.Uint64(tail), nil
}

// Key is a decoded key. Which fields are used depends on the kind; the others are zero.
type Key struct {
	Kind  Kind
	Shard uint32
	Name  string // entity id, list, counter, collection, blob id, name of sums
	Table uint8  // item
	Seq   uint64 // event; index of a piece
	Score int64  // listing
	Tail  []byte // item key, list member, record key, owned blob's id, member of a sum, end of a pack; shares the decoded key's memory
}

// Decode reads any key of this package. It is strict: what it accepts encodes to the same bytes again.
func Decode(key []byte) (Key, error) {
	if len(key) < prefixLen+2 || key[0] != space {
		return Key{}, errKey
	}
	if key[1] != version {
		return Key{}, fmt.Errorf("%w: layout version %d, known is %d", errKey, key[1], version)
	}
	k := Key{Shard: binary.BigEndian.Uint32(key[2:])}
	kind, n, rest := key[prefixLen], int(key[prefixLen+1]), key[prefixLen+2:]
	if len(rest) < n {
		return Key{}, fmt.Errorf("%w: name cut off", errKey)
	}
	k.Name, rest = string(rest[:n]), rest[n:]
	var err error
	switch kind {
	case kindEntity:
		err = k.decodeRow(rest)
	case kindListing:
		k.Kind = Listing
		k.Score, k.Tail, err = ListingTail(rest)
	case kindCounter:
		k.Kind = Counter
		if len(rest) != 0 {
			err = fmt.Errorf("%w: %d bytes after a counter's name", errKey, len(rest))
		}
	case kindRecord:
		k.Kind, k.Tail = Record, rest
	case kindSum:
		k.Kind, k.Tail = Sum, rest
	case kindPack:
		k.Kind, k.Tail = Pack, rest
	case kindBlob:
		err = k.decodeBlob(rest)
	default:
		err = fmt.Errorf("%w: kind %#x", errKey, kind)
	}
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

func (k *Key) decodeRow(rest []byte) error {
	switch {
	case len(rest) == 1 && rest[0] == rowHead:
		k.Kind = Head
	case len(rest) >= 2 && rest[0] == rowItem:
		k.Kind, k.Table, k.Tail = Item, rest[1], rest[2:]
	case len(rest) >= 1 && rest[0] == rowEvent:
		seq, err := EventTail(rest[1:])
		if err != nil {
			return err
		}
		k.Kind, k.Seq = Event, seq
	case len(rest) >= 1 && rest[0] == rowOwned:
		k.Kind, k.Tail = Owned, rest[1:]
	default:
		return fmt.Errorf("%w: row of an entity", errKey)
	}
	return nil
}

func (k *Key) decodeBlob(rest []byte) error {
	switch {
	case len(rest) == 1 && rest[0] == rowBlobHead:
		k.Kind = BlobHead
	case len(rest) == 5 && rest[0] == rowChunk:
		k.Kind, k.Seq = Chunk, uint64(binary.BigEndian.Uint32(rest[1:]))
	default:
		return fmt.Errorf("%w: row of a blob", errKey)
	}
	return nil
}

// Append appends the key's bytes.
func (k Key) Append(dst []byte) []byte {
	switch k.Kind {
	case Head:
		return AppendHead(dst, k.Shard, k.Name)
	case Item:
		return AppendItem(dst, k.Shard, k.Name, k.Table, k.Tail)
	case Event:
		return AppendEvent(dst, k.Shard, k.Name, k.Seq)
	case Listing:
		return append(AppendScore(AppendList(dst, k.Shard, k.Name), k.Score), k.Tail...)
	case Counter:
		return AppendCounter(dst, k.Shard, k.Name)
	case Record:
		return append(appendName(AppendShard(dst, k.Shard), kindRecord, k.Name), k.Tail...)
	case Owned:
		return append(AppendOwned(dst, k.Shard, k.Name), k.Tail...)
	case BlobHead:
		return AppendBlobHead(dst, k.Shard, k.Name)
	case Chunk:
		return AppendChunk(dst, k.Shard, k.Name, uint32(k.Seq))
	case Sum:
		return append(AppendSums(dst, k.Shard, k.Name), k.Tail...)
	case Pack:
		return append(AppendPacks(dst, k.Shard, k.Name), k.Tail...)
	default:
		return dst
	}
}
