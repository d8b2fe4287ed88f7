package replica

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The stream of a snapshot is the magic, then frames of rows:
//
//	length uint32, crc32c uint32, then length bytes of: key length uvarint, key, value length uvarint, value
//
// and a last frame of length 0, whose checksum field holds the number of frames before it. The header, with index, term and members, travels beside it.
const (
	snapshotMagic    = "prlysnp1"
	snapshotFrame    = 256 << 10
	maxSnapshotFrame = 64 << 20
	// maxSends bounds the snapshots a node sends at once.
	maxSends = 2
	// sendTimeout bounds one snapshot: a receiver that is slower than this is started over.
	sendTimeout = 30 * time.Minute
)

// snapshotMeta describes to raft the snapshot that a follower would get. The state on disk is the snapshot; its exact
// index is known when it is sent.
func (d *Driver) snapshotMeta(g *group) (*raftpb.Snapshot, error) {
	if g.conf.pending > 0 || d.loop.sends >= maxSends {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	m := g.shared.members.Load()
	conf := &raftpb.ConfState{}
	for _, v := range m.Voters {
		conf.Voters = append(conf.Voters, uint64(v))
	}
	for _, l := range m.Learners {
		conf.Learners = append(conf.Learners, uint64(l))
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(g.applied.index), Term: new(g.applied.term), ConfState: raftpb.EnsureConfState(conf),
	}}, nil
}

// sending is a snapshot being sent to a node. It is useful while this node leads and that one is a member.
type sending struct {
	to     NodeID
	index  uint64
	cancel func()
}

func (g *group) cancelSends(unless func(NodeID) bool) {
	for _, s := range g.snapshots.sending {
		if !unless(s.to) {
			s.cancel()
		}
	}
}

func nobody(NodeID) bool { return false }

// startSend sends the current state of a group to a follower that has fallen behind the start of the log.
func (d *Driver) startSend(g *group, m *raftpb.Message) {
	view := d.cfg.DB.NewSnapshot()
	at := m.GetSnapshot().GetMetadata().GetIndex()
	to := m.GetTo()
	d.loop.sends++
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	s := &sending{to: NodeID(to), index: at, cancel: cancel}
	g.snapshots.sending = append(g.snapshots.sending, s)
	d.background(func(stop context.Context) {
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		begin := time.Now()
		err := d.send(ctx, g, view, m)
		outcome, status := "sent", raft.SnapshotFinish
		if err != nil {
			outcome, status = "failed", raft.SnapshotFailure
		}
		d.metrics.snapshots.WithLabelValues("out", outcome).Inc()
		d.logger.Info("snapshot sent", slog.Uint64("shard", uint64(g.id)), slog.Uint64("to", to), slog.Uint64("index", at),
			slog.Duration("elapsed", time.Since(begin)), slog.Any("err", err))
		d.inbox.call(func() {
			d.loop.sends--
			g.snapshots.sending = slices.DeleteFunc(g.snapshots.sending, func(other *sending) bool { return other == s })
			g.node.ReportSnapshot(to, status)
			d.touch(g)
		})
	})
}

func (d *Driver) send(ctx context.Context, g *group, view *pebble.Snapshot, m *raftpb.Message) (err error) {
	defer func() { err = errors.Join(err, view.Close()) }()
	header, err := g.snapshotHeader(view, m)
	if err != nil {
		return err
	}
	start, end := d.cfg.Machine.Span(g.id)
	return d.cfg.Transport.SendSnapshot(ctx, NodeID(m.GetTo()), Message{Group: g.id, raft: header}, func(w io.Writer) error {
		return writeSnapshot(ctx, &pacedWriter{w: w, pace: newPacer(ctx, d.cfg.SnapshotRate)}, view, start, end)
	})
}

// snapshotHeader is the message to the follower, with position and members as of view.
func (g *group) snapshotHeader(view *pebble.Snapshot, m *raftpb.Message) (*raftpb.Message, error) {
	row, err := getRow(view, g.keys.row(kindApplied))
	if err != nil {
		return nil, err
	}
	at, err := parsePosition("applied", row)
	if err != nil {
		return nil, err
	}
	if row, err = getRow(view, g.keys.row(kindConfState)); err != nil {
		return nil, err
	}
	conf := &raftpb.ConfState{}
	if err := parseMessage("conf state", row, conf); err != nil {
		return nil, err
	}
	header, ok := proto.Clone(m).(*raftpb.Message)
	if !ok {
		return nil, errors.New("clone message")
	}
	header.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &at.index, Term: &at.term, ConfState: conf}}
	return header, nil
}

func writeSnapshot(ctx context.Context, w io.Writer, r pebble.Reader, start, end []byte) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	defer it.Close() //nolint:errcheck // it.Error is checked below
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	fw := frameWriter{w: w}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		if err := fw.row(it.Key(), value); err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if err := fw.finish(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// frameWriter packs rows into frames.
type frameWriter struct {
	w      io.Writer
	frame  []byte
	frames uint32
}

func (f *frameWriter) row(key, value []byte) error {
	f.frame = binary.AppendUvarint(f.frame, uint64(len(key)))
	f.frame = append(f.frame, key...)
	f.frame = binary.AppendUvarint(f.frame, uint64(len(value)))
	f.frame = append(f.frame, value...)
	if len(f.frame) < snapshotFrame {
		return nil
	}
	return f.flush()
}

func (f *frameWriter) flush() error {
	if len(f.frame) == 0 {
		return nil
	}
	if err := writeFrame(f.w, crc32.Checksum(f.frame, castagnoli()), f.frame); err != nil {
		return err
	}
	f.frames++
	f.frame = f.frame[:0]
	return nil
}

func (f *frameWriter) finish() error {
	if err := f.flush(); err != nil {
		return err
	}
	return writeFrame(f.w, f.frames, nil)
}

func writeFrame(w io.Writer, check uint32, payload []byte) error {
	var head [8]byte
	binary.BigEndian.PutUint32(head[:4], uint32(len(payload)))
	binary.BigEndian.PutUint32(head[4:], check)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// castagnoli returns the crc32 package's table for this polynomial.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

var errBadSnapshot = errors.New("malformed snapshot stream")

// readSnapshot checks a stream and passes each frame to take; it reuses the frame's memory. It reads nothing behind the
// last frame.
func readSnapshot(r io.Reader, take func(frame []byte) error) error {
	var magic [len(snapshotMagic)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return fmt.Errorf("%w: %w", errBadSnapshot, err)
	}
	if string(magic[:]) != snapshotMagic {
		return fmt.Errorf("%w: unknown format", errBadSnapshot)
	}
	var frame []byte
	for frames := uint32(0); ; frames++ {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return fmt.Errorf("%w: %w", errBadSnapshot, err)
		}
		size, check := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
		if size == 0 {
			if check != frames {
				return fmt.Errorf("%w: %d of %d frames", errBadSnapshot, frames, check)
			}
			return nil
		}
		if size > maxSnapshotFrame {
			return fmt.Errorf("%w: frame of %d bytes", errBadSnapshot, size)
		}
		frame = slices.Grow(frame[:0], int(size))[:size]
		if _, err := io.ReadFull(r, frame); err != nil {
			return fmt.Errorf("%w: %w", errBadSnapshot, err)
		}
		if crc32.Checksum(frame, castagnoli()) != check {
			return fmt.Errorf("%w: checksum of frame %d", errBadSnapshot, frames)
		}
		if err := take(frame); err != nil {
			return err
		}
	}
}

// eachRow passes the rows of a frame to take; they share its memory.
func eachRow(frame []byte, take func(key, value []byte) error) error {
	for len(frame) > 0 {
		var key, value []byte
		var ok bool
		if key, frame, ok = cutBytes(frame); !ok {
			return fmt.Errorf("%w: key", errBadSnapshot)
		}
		if value, frame, ok = cutBytes(frame); !ok {
			return fmt.Errorf("%w: value", errBadSnapshot)
		}
		if err := take(key, value); err != nil {
			return err
		}
	}
	return nil
}

func cutBytes(b []byte) (field, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}

// copySnapshot copies a stream, checking it and that its rows are in [start, end).
func copySnapshot(w io.Writer, r io.Reader, start, end []byte) error {
	buffered := bufio.NewWriterSize(w, snapshotFrame)
	if _, err := buffered.WriteString(snapshotMagic); err != nil {
		return fmt.Errorf("write spool: %w", err)
	}
	var frames uint32
	err := readSnapshot(r, func(frame []byte) error {
		err := eachRow(frame, func(key, _ []byte) error {
			if bytes.Compare(key, start) < 0 || bytes.Compare(key, end) >= 0 {
				return fmt.Errorf("%w: key outside the group", errBadSnapshot)
			}
			return nil
		})
		if err != nil {
			return err
		}
		frames++
		if err := writeFrame(buffered, crc32.Checksum(frame, castagnoli()), frame); err != nil {
			return fmt.Errorf("write spool: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(writeFrame(buffered, frames, nil), buffered.Flush()); err != nil {
		return fmt.Errorf("write spool: %w", err)
	}
	return nil
}
