package usage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/meter"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

// row names a row of numbers.
type row struct{ name, member string }

// batch is usage that is counted at once. What it holds is in its file, too: one frame for each sum, in order.
type batch struct {
	meter  string
	number uint64
	rows   map[row][]int64
	path   string
	file   *os.File // while it takes rows; nil when it cannot be written
	bytes  int
	begun  bool
}

// maxBatchBytes bounds a file: while nothing can be counted, the rows of a batch are added to over and over.
const maxBatchBytes = 1 << 20

func newBatch(folder, id string, number uint64) *batch {
	name := fmt.Sprintf("%s.%010d%s", id, number, suffix) // in the order of the numbers
	return &batch{meter: id, number: number, rows: map[row][]int64{}, path: filepath.Join(folder, name)}
}

// suffix is that of the files' names.
const suffix = ".usage"

// hasRoom says whether a sum can be added.
func (b *batch) hasRoom(sum *logpb.Sum) bool {
	_, known := b.rows[row{sum.GetName(), sum.GetMember()}]
	return b.bytes < maxBatchBytes && (known || len(b.rows) < meter.MaxRows)
}

// add adds a sum. It is added even if an error says that the file does not hold it.
func (b *batch) add(sum *logpb.Sum) error {
	b.sum(sum)
	if !b.begun {
		b.begun = true
		if err := b.create(); err != nil {
			return err
		}
	}
	if b.file == nil {
		return nil // that was said
	}
	frame, err := frameOf(sum)
	if err == nil {
		_, err = b.file.Write(frame)
	}
	if b.bytes += len(frame); err != nil {
		b.close() // a frame may be there in part: nothing is written behind it
		return fmt.Errorf("keep usage: %w", err)
	}
	return nil
}

func (b *batch) sum(sum *logpb.Sum) {
	at := row{sum.GetName(), sum.GetMember()}
	b.rows[at] = keys.AddNumbers(b.rows[at], sum.GetDeltas())
}

func (b *batch) create() (err error) {
	if err = os.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
		return fmt.Errorf("keep usage: %w", err)
	}
	if b.file, err = os.OpenFile(b.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		b.file = nil
		return fmt.Errorf("keep usage: %w", err)
	}
	return nil
}

// close gives the file back, which stays.
func (b *batch) close() {
	if b.file != nil {
		_ = b.file.Close() // every frame was written by itself
		b.file = nil
	}
}

// remove removes the file of a batch that was counted. One that stays is given once more at the next start, and not counted again.
func (b *batch) remove() {
	b.close()
	_ = os.Remove(b.path)
}

// sums are the rows.
func (b *batch) sums() []*logpb.Sum {
	sums := make([]*logpb.Sum, 0, len(b.rows))
	for at, numbers := range b.rows {
		sums = append(sums, &logpb.Sum{Name: at.name, Member: at.member, Deltas: numbers})
	}
	slices.SortFunc(sums, func(x, y *logpb.Sum) int {
		return cmp.Or(cmp.Compare(x.GetName(), y.GetName()), cmp.Compare(x.GetMember(), y.GetMember()))
	})
	return sums
}

// A frame is the length of a sum, a checksum (CRC-32C), both of four bytes, and the sum.
const frameHead = 8

// checksum is a CRC-32C.
func checksum(body []byte) uint32 { return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) }

func frameOf(sum *logpb.Sum) ([]byte, error) {
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, frameHead, frameHead+256), sum)
	if err != nil {
		return nil, fmt.Errorf("encode usage: %w", err)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.BigEndian.PutUint32(frame[4:], checksum(frame[frameHead:]))
	return frame, nil
}

// readBatches reads what earlier starts have left in a folder, each batch up to its first frame that is not whole: whoever wrote that was
// told of no success. What is empty is removed.
func readBatches(folder string) ([]*batch, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []*batch
	for _, entry := range entries { // by name, so the numbers of a meter come in order
		name, is := strings.CutSuffix(entry.Name(), suffix)
		id, digits, cut := strings.Cut(name, ".")
		var number uint64
		if _, failed := fmt.Sscanf(digits, "%d", &number); !is || !cut || failed != nil || !entry.Type().IsRegular() {
			continue
		}
		if len(found) == maxBatches {
			return found, fmt.Errorf("more than %d batches wait; the others are read at the next start", maxBatches)
		}
		b := newBatch(folder, id, number)
		if failed := b.read(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		if len(b.rows) == 0 {
			b.remove()
			continue
		}
		found = append(found, b)
	}
	return found, err
}

func (b *batch) read() error {
	b.begun = true
	info, err := os.Stat(b.path)
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	if info.Size() > 2*maxBatchBytes {
		return fmt.Errorf("read usage: %s has %d bytes", b.path, info.Size())
	}
	data, err := os.ReadFile(b.path)
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	from := bytes.NewBuffer(data)
	for sum := nextSum(from); sum != nil && b.hasRoom(sum); sum = nextSum(from) {
		b.sum(sum)
	}
	return nil
}

// nextSum reads a frame; nil = there is no whole one.
func nextSum(from *bytes.Buffer) *logpb.Sum {
	if from.Len() < frameHead {
		return nil
	}
	head := from.Next(frameHead)
	body := from.Next(int(min(binary.BigEndian.Uint32(head), 2*maxBatchBytes)))
	sum := &logpb.Sum{}
	if checksum(body) != binary.BigEndian.Uint32(head[4:]) || proto.Unmarshal(body, sum) != nil || sum.GetName() == "" {
		return nil
	}
	return sum
}
