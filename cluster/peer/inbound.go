package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/protobuf/proto"
)

// accept takes connections until the listener is closed.
func (t *Transport) accept(ctx context.Context) {
	var logged time.Time
	for {
		conn, err := t.cfg.Listener.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil { // out of descriptors, for instance
			t.metrics.notAccepted.Inc()
			if now := time.Now(); now.Sub(logged) >= time.Minute {
				logged = now
				t.logger.Error("connection not accepted", slog.Any("err", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(t.cfg.MinBackoff):
			}
			continue
		}
		select {
		case t.handshakes <- struct{}{}:
			t.run(func(ctx context.Context) { t.welcome(ctx, newLink(conn)) })
		default:
			_ = conn.Close()
		}
	}
}

// welcome greets whoever has connected, and serves it.
func (t *Transport) welcome(ctx context.Context, l *link) {
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	defer l.close()
	release, err := t.answer(l)
	<-t.handshakes
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, io.EOF) {
			t.logRefusal(l.raw.RemoteAddr(), err)
		}
		return
	}
	defer release()
	from := l.peer.GetNode()
	switch l.peer.GetPurpose() {
	case purposeFrames:
		err = t.receive(l, from)
		if ctx.Err() == nil {
			t.logger.Info("connection from node ended", slog.Uint64("peer", from), slog.String("name", l.peer.GetName()), slog.Any("err", err))
		}
	case purposeSnapshot:
		t.serveSnapshot(ctx, l, from)
	case purposeFetch:
		t.serveFetch(ctx, l, from)
	}
}

// logRefusal logs the same reason now and then: who is refused comes back every second.
func (t *Transport) logRefusal(from net.Addr, err error) {
	now, text := time.Now(), err.Error()
	t.mu.Lock()
	known := t.mu.refusal == text && now.Sub(t.mu.refused) < logEvery
	if !known {
		t.mu.refusal, t.mu.refused = text, now
	}
	t.mu.Unlock()
	if !known {
		t.logger.Warn("connection refused", slog.String("address", from.String()), slog.Any("err", err))
	}
}

// answer is the answering side of a handshake. release gives back what the connection holds.
func (t *Transport) answer(l *link) (release func(), err error) {
	if err = l.raw.SetDeadline(time.Now().Add(t.cfg.HandshakeTimeout)); err != nil {
		return nil, err
	}
	if t.cfg.ServerTLS != nil {
		l.conn = tls.Server(l.raw, t.cfg.ServerTLS)
	}
	l.r = bufio.NewReaderSize(l, readBuffer)
	l.peer, err = l.readHello()
	switch {
	case errors.Is(err, io.EOF):
		return nil, err // somebody only looked whether the port is open
	case err != nil:
		return nil, explain(err)
	}
	mine := t.hello.Load()
	why := refuse(mine, l.peer)
	if why == "" {
		if release = t.admit(l); release == nil {
			why = mine.GetName() + " has no place for another stream"
		}
	}
	if why != "" {
		mine = proto.CloneOf(mine)
		mine.Refusal = why
		return nil, errors.Join(errors.New(why), l.sayHello(mine))
	}
	if l.peer.GetPurpose() == purposeGreet && l.peer.GetClusterId() == mine.GetClusterId() {
		mine = proto.CloneOf(mine)
		mine.NameNode, mine.NameVersion = t.cfg.Named(l.peer.GetName())
	}
	if err = errors.Join(l.sayHello(mine), l.raw.SetDeadline(time.Time{})); err != nil {
		release()
		return nil, fmt.Errorf("greet: %w", err)
	}
	return release, nil
}

// admit takes a place for a connection, nil if there is none.
func (t *Transport) admit(l *link) (release func()) {
	node := l.peer.GetNode()
	switch l.peer.GetPurpose() {
	case purposeFrames:
		t.mu.Lock()
		defer t.mu.Unlock()
		if old := t.mu.in[node]; old != nil {
			old.close() // it has dialled anew, so it does not use that one
		}
		t.mu.in[node] = l
		if o := t.mu.out[node]; o != nil {
			o.nudgeNow()
		}
		return func() { t.dismiss(node, l) }
	case purposeSnapshot, purposeFetch:
		select {
		case t.streams <- struct{}{}:
			return func() { <-t.streams }
		default:
			return nil
		}
	default:
		return func() {}
	}
}

func (t *Transport) dismiss(node uint64, l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.in[node] == l {
		delete(t.mu.in, node)
	}
}

// receive hands on the batches of a node until the connection ends.
func (t *Transport) receive(l *link, from uint64) error {
	limit := max(batchBytes, t.cfg.MaxFrameBytes) + frameCost
	l.pulse.timeout = t.cfg.Timeout
	l.limitSilence(t.cfg.Timeout)
	if err := l.raw.SetDeadline(time.Now().Add(t.cfg.Timeout)); err != nil {
		return err
	}
	for {
		kind, payload, err := readFrame(l.r, limit, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("nothing heard for %v: %w", t.cfg.Timeout, err)
		}
		if err != nil {
			return err
		}
		switch {
		case kind == kindPing:
			err = l.beat(time.Now())
		case kind < firstBatch:
			err = fmt.Errorf("%w: kind %d between batches", errBadFrame, kind)
		case kind == KindRaft || kind == KindReport:
			err = t.handOn(from, kind, payload)
		}
		if err != nil {
			return err
		}
	}
}

func (t *Transport) handOn(from uint64, kind Kind, payload []byte) error {
	frames, err := parseBatch(payload)
	if err != nil {
		return err
	}
	t.metrics.receivedBatches.Inc()
	t.metrics.receivedBytes.Add(float64(len(payload)))
	t.cfg.OnFrames(from, kind, frames)
	return nil
}
