package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"parley/persistence/replica"
)

// Transport carries the messages of this node's logs to other nodes, as opaque bytes, into the other store's Deliver
// and ReceiveSnapshot. Frames may be lost, duplicated, delayed and reordered, but not altered. Its methods are called
// from several goroutines.
type Transport interface {
	// Send queues frames for a node and never blocks; it may keep them. What does not fit is dropped, and reported with
	// Store.ReportUnreachable.
	Send(to uint64, frames [][]byte)
	// SendSnapshot streams a shard's state over a connection of its own and returns nil once the receiver's
	// ReceiveSnapshot has returned nil. write produces the bytes; it may be called once.
	SendSnapshot(ctx context.Context, to uint64, header []byte, write func(io.Writer) error) error
}

// messages adapts a Transport to package replica.
type messages struct {
	transport Transport
	logger    *slog.Logger
}

// Send encodes messages as frames.
func (m messages) Send(to replica.NodeID, msgs []replica.Message) {
	frames := make([][]byte, 0, len(msgs))
	for _, msg := range msgs {
		frame, err := msg.AppendTo(make([]byte, 0, msg.Size()))
		if err != nil {
			m.logger.Error("message to another node is lost", slog.Any("err", err))
			continue
		}
		frames = append(frames, frame)
	}
	m.transport.Send(uint64(to), frames)
}

// SendSnapshot encodes the header as a frame.
func (m messages) SendSnapshot(ctx context.Context, to replica.NodeID, header replica.Message, write func(io.Writer) error) error {
	frame, err := header.AppendTo(nil)
	if err != nil {
		return err
	}
	return m.transport.SendSnapshot(ctx, uint64(to), frame, write)
}

// Deliver takes frames that other nodes sent. It does not block, and does not retain the frames. Malformed frames are
// reported as an error; the others are delivered all the same.
func (s *Store) Deliver(frames [][]byte) error {
	msgs := make([]replica.Message, 0, len(frames))
	var bad error
	for _, frame := range frames {
		m, err := replica.ParseMessage(frame)
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		msgs = append(msgs, m)
	}
	s.driver.Deliver(msgs...)
	return bad
}

// ReceiveSnapshot takes a snapshot that another node sends and returns once it is durable and passed to its group. It
// aborts when the disk is nearly full.
func (s *Store) ReceiveSnapshot(ctx context.Context, header []byte, r io.Reader) error {
	m, err := replica.ParseMessage(header)
	if err != nil {
		return err
	}
	if err := s.driver.ReceiveSnapshot(ctx, m, &roomyReader{Reader: r, writable: s.condition.writable}); err != nil {
		return fmt.Errorf("receive snapshot: %w", err)
	}
	return nil
}

// ReportDown tells the logs that the process of a node is gone: its groups elect a new leader at once. It does not
// block.
func (s *Store) ReportDown(node uint64) {
	s.driver.ReportDown(replica.NodeID(node))
}

// roomyReader reads only while writes are accepted.
type roomyReader struct {
	io.Reader
	writable func() error
}

// Read implements io.Reader.
func (r *roomyReader) Read(p []byte) (int, error) {
	if err := r.writable(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// ReportUnreachable tells the logs that frames to a node were lost. It does not block.
func (s *Store) ReportUnreachable(node uint64) {
	s.driver.ReportUnreachable(replica.NodeID(node))
}
