package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// The engine takes the first incomplete chunk of its newest log for the torn end of a write, unless a chunk in a later
// block says that it was synced. It does not examine the rest of the block, and the synced offsets in chunks lag
// behind: the engine (2.1.7) does not count what it wrote with a block that was full. A flipped bit could therefore
// silently cut off hundreds of acknowledged records behind it. So the log is examined before the engine opens it.
//
// A log is a sequence of blocks, filled with chunks that never cross the end of a block:
//
//	checksum 4 | length 2 | kind 1 | number of the log 4 | synced bytes of the log 8 | payload
//
// The checksum covers what follows the length. Files are recycled: behind the end of a log lie chunks of an earlier
// log, with that log's number.
const (
	logBlock  = 32 << 10
	logHeader = 19
	// Kinds of chunk: a whole record, or its first, middle or last piece.
	logWhole = 9
	logLast  = 12
)

var errLogDamage = errors.New("the log is damaged before its end")

// checkLogEnd finds damage before the end of the newest log.
func checkLogEnd(fs vfs.FS, dir string) (err error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil || len(logs) == 0 {
		return err
	}
	newest := logs[len(logs)-1]
	_, path := newest.SegmentLocation(newest.NumSegments() - 1)
	file, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	end := logEnd{number: uint32(newest.Num)} //nolint:gosec // a chunk holds that many bits of the number
	block := make([]byte, logBlock)
	for start := uint64(0); ; start += logBlock {
		n, err := io.ReadFull(file, block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if end.take(start, block[:n]) {
			return fmt.Errorf("%w: %s at byte %d", errLogDamage, path, end.at)
		}
	}
}

// logEnd reads a log to its apparent end, and looks behind it for proof that the log went on.
//
// The number of synced bytes in a chunk is never less than in one before it, and rises with a sync that ended between
// the two. The second such sync began after the first one had ended, hence after the first of the chunks was written,
// and so covers everything before that. If the offset rises twice behind the end, the missing part was synced. One rise
// proves nothing: of unsynced data, a crash may leave the later part and lose the earlier one.
type logEnd struct {
	number uint32
	synced uint64 // of the last whole chunk
	ended  bool
	at     uint64 // where the log ended
	found  bool   // a whole chunk behind the end
	rises  int    // of synced since then
}

// take examines the next block and reports whether the log is damaged.
func (e *logEnd) take(start uint64, block []byte) bool {
	i := 0
	for len(block)-i >= logHeader {
		size, synced := logChunk(block[i:], e.number)
		place := start + uint64(i) //nolint:gosec // not negative
		// A client's data may look like a chunk, but cannot know its own offset in the log.
		if size > 0 && (synced < e.synced || synced > place) {
			size = 0
		}
		switch {
		case size == 0 && !e.ended:
			e.ended, e.at = true, place
		case size > 0 && e.found && synced > e.synced:
			e.rises++
		case size > 0 && e.ended:
			e.found = true
		}
		if size > 0 {
			e.synced = synced
		}
		i += max(size, 1)
	}
	return e.rises > 1
}

// logChunk returns the size of the complete chunk at the start of b, 0 if there is none, and how much of the log had
// been synced when it was written.
func logChunk(b []byte, number uint32) (size int, synced uint64) {
	if b[6] < logWhole || b[6] > logLast || binary.LittleEndian.Uint32(b[7:]) != number {
		return 0, 0
	}
	size = logHeader + int(binary.LittleEndian.Uint16(b[4:]))
	if size > len(b) || logChecksum(b[6:size]) != binary.LittleEndian.Uint32(b) {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(b[11:])
}

// logChecksum is a CRC-32C, masked so that it can itself be part of checksummed data.
func logChecksum(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}
