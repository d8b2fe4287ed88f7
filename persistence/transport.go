package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"parley/persistence/replica"
)

// Transport carries what the logs of this node say to those of other nodes, as bytes that mean nothing to it. What it
// carries goes into the other store's Deliver and ReceiveSnapshot. Frames may be lost, doubled, delayed and reordered;
// they must not be altered. Its methods are called from several goroutines.
type Transport interface {
	// Send queues frames for a node and never blocks; it may keep them. What does not fit is dropped, and told with
	// Store.ReportUnreachable.
	Send(to uint64, frames [][]byte)
	// SendSnapshot streams a shard's state over a connection of its own and returns nil once the receiver's
	// ReceiveSnapshot has returned nil. write produces the bytes; it may be called once.
	SendSnapshot(ctx context.Context, to uint64, header []byte, write func(io.Writer) error) error
}

// messages is a Transport as the logs see it.
type messages struct {
	transport Transport
	logger    *slog.Logger
}

// Send turns messages into frames.
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

// SendSnapshot turns the header into a frame.
func (m messages) SendSnapshot(ctx context.Context, to replica.NodeID, header replica.Message, write func(io.Writer) error) error {
	frame, err := header.AppendTo(nil)
	if err != nil {
		return err
	}
	return m.transport.SendSnapshot(ctx, uint64(to), frame, write)
}

// Deliver takes frames of other nodes' Send. It does not block, and keeps nothing of them. Frames that cannot be read are an error,
// which does not keep it from taking the others.
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

// ReceiveSnapshot takes another node's SendSnapshot and returns once what came is durable and handed on. It breaks off
// when the disk is nearly full.
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

// ReportDown tells that the process of a node is gone: what it led elects another at once. It does not block.
func (s *Store) ReportDown(node uint64) {
	s.driver.ReportDown(replica.NodeID(node))
}

// roomyReader reads as long as what is read may be written.
type roomyReader struct {
	io.Reader
	writable func() error
}

// Read reads.
func (r *roomyReader) Read(p []byte) (int, error) {
	if err := r.writable(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// ReportUnreachable tells that frames to a node were lost. It does not block.
func (s *Store) ReportUnreachable(node uint64) {
	s.driver.ReportUnreachable(replica.NodeID(node))
}
