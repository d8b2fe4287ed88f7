package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// content is n bytes that differ.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// TestSnapshots: what is written arrives whole, whatever its size and the sizes of writes and reads.
func TestSnapshots(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	var got []byte
	w.start(2, func(c *Config) {
		c.OnSnapshot = func(_ context.Context, from uint64, header []byte, r io.Reader) (err error) {
			require.Equal(t, uint64(1), from)
			require.Equal(t, "header", string(header))
			got, err = io.ReadAll(r)
			return err
		}
	})
	for _, size := range []int{0, 1, streamChunk - headerSize, streamChunk, streamChunk + 1, 5 << 20} {
		for _, step := range []int{1000, 300 << 10} {
			data := content(size)
			got = nil
			require.NoError(t, a.SendSnapshot(t.Context(), 2, []byte("header"), func(to io.Writer) error {
				for rest := data; len(rest) > 0; {
					n := min(step, len(rest))
					if _, err := to.Write(rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			}))
			require.True(t, bytes.Equal(data, got), "size %d, step %d", size, step)
		}
	}
}

// writeUntilError writes for as long as it can.
func writeUntilError(to io.Writer) error {
	for {
		if _, err := to.Write(make([]byte, 64<<10)); err != nil {
			return err
		}
	}
}

func TestSnapshotFailures(t *testing.T) {
	type receiver = func(ctx context.Context, from uint64, header []byte, r io.Reader) error
	discard := func(_ context.Context, _ uint64, _ []byte, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	for name, test := range map[string]struct {
		receive receiver
		write   func(w *world, to io.Writer) error // once the receiver reads
		err     string
	}{
		"receiver_refuses_at_once": {
			receive: func(context.Context, uint64, []byte, io.Reader) error { return errors.New("disk is full") },
			write:   func(_ *world, to io.Writer) error { return writeUntilError(to) },
			err:     "snapshot to node 2: disk is full",
		},
		"receiver_fails_at_the_end": {
			receive: func(_ context.Context, _ uint64, _ []byte, r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				return errors.Join(err, errors.New("install failed"))
			},
			write: func(_ *world, to io.Writer) error { _, err := to.Write(content(1 << 20)); return err },
			err:   "snapshot to node 2: install failed",
		},
		"sender_gives_up": {
			receive: discard,
			write: func(_ *world, to io.Writer) error {
				_, err := to.Write(content(1 << 20))
				return errors.Join(err, errors.New("row is damaged"))
			},
			err: "snapshot to node 2: row is damaged",
		},
		"cut_in_the_middle": {
			receive: discard,
			write: func(w *world, to io.Writer) error {
				if _, err := to.Write(content(1 << 20)); err != nil {
					return err
				}
				w.network.Isolate("n1", "n2")
				return writeUntilError(to)
			},
			err: "snapshot to node 2: ",
		},
		"reset_in_the_middle": {
			receive: discard,
			write: func(w *world, to io.Writer) error {
				if _, err := to.Write(content(1 << 20)); err != nil {
					return err
				}
				w.network.Break()
				return writeUntilError(to)
			},
			err: "snapshot to node 2: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(1, nil)
			started, ended := make(chan struct{}), make(chan error, 1)
			w.start(2, func(c *Config) {
				c.OnSnapshot = func(ctx context.Context, from uint64, header []byte, r io.Reader) error {
					close(started)
					err := test.receive(ctx, from, header, r)
					ended <- err
					return err
				}
			})
			err := a.SendSnapshot(t.Context(), 2, []byte("header"), func(to io.Writer) error {
				<-started
				return test.write(w, to)
			})
			require.ErrorContains(t, err, test.err)
			select {
			case err := <-ended:
				require.Error(t, err)
			case <-time.After(patience):
				require.Fail(t, "the receiver hangs")
			}
		})
	}
}

// TestSnapshotTakesTime: either side may take longer than the timeout of silence.
func TestSnapshotTakesTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := func(c *Config) { c.Timeout = 2 * time.Second }
	a := w.start(1, short)
	pause := func(ctx context.Context) {
		timer := time.NewTimer(4 * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	var got int64
	w.start(2, func(c *Config) {
		short(c)
		c.OnSnapshot = func(ctx context.Context, _ uint64, _ []byte, r io.Reader) (err error) {
			pause(ctx) // while more is sent than buffers hold
			got, err = io.Copy(io.Discard, r)
			pause(ctx) // installs it
			return errors.Join(err, ctx.Err())
		}
	})
	const size = 16 << 20
	require.NoError(t, a.SendSnapshot(t.Context(), 2, nil, func(to io.Writer) error {
		if _, err := to.Write(content(size / 2)); err != nil {
			return err
		}
		pause(t.Context()) // reads from a slow disk
		_, err := to.Write(content(size / 2))
		return err
	}))
	require.Equal(t, int64(size), got)
}

func TestSnapshotIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start(1, nil)
	gone := make(chan struct{})
	w.start(2, func(c *Config) {
		c.OnSnapshot = func(ctx context.Context, _ uint64, _ []byte, _ io.Reader) error {
			<-ctx.Done() // does not read: only its own pings tell that the sender is gone
			close(gone)
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := a.SendSnapshot(ctx, 2, nil, func(to io.Writer) error {
		cancel()
		return writeUntilError(to)
	})
	require.ErrorIs(t, err, context.Canceled)
	<-gone
}

func TestStopEndsStreams(t *testing.T) {
	for _, stopped := range []string{"sender", "receiver"} {
		t.Run(stopped, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(1, nil)
			started := make(chan struct{}, 1)
			b := w.start(2, func(c *Config) {
				c.OnSnapshot = func(ctx context.Context, _ uint64, _ []byte, r io.Reader) error {
					started <- struct{}{}
					_, err := io.Copy(io.Discard, r)
					return errors.Join(err, ctx.Err())
				}
			})
			var sending errgroup.Group
			sending.Go(func() error { return a.SendSnapshot(t.Context(), 2, nil, writeUntilError) })
			<-started
			if stopped == "sender" {
				a.Stop()
			} else {
				b.Stop()
			}
			require.Error(t, sending.Wait())
		})
	}
}

func TestFetch(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	data := content(3<<20 + 17)
	w.start(2, func(c *Config) {
		c.OnFetch = func(_ context.Context, from uint64, request []byte, to io.Writer) error {
			require.Equal(t, uint64(1), from)
			if _, err := to.Write(data); err != nil {
				return err
			}
			if string(request) == "fail" {
				return errors.New("no longer the owner")
			}
			return nil
		}
	})
	body, err := a.Fetch(t.Context(), 2, []byte("all"))
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.NoError(t, body.Close())
	require.NoError(t, body.Close())

	body, err = a.Fetch(t.Context(), 2, []byte("fail"))
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	var remote *RemoteError
	require.ErrorAs(t, err, &remote)
	require.Equal(t, "no longer the owner", remote.Text)
	require.NoError(t, body.Close())
}

// TestFetchTakesTime: neither a slow caller nor a slow node is taken for dead; a caller that is cut off is.
func TestFetchTakesTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := func(c *Config) { c.Timeout = 700 * time.Millisecond }
	a := w.start(1, short)
	ended := make(chan error, 1)
	w.start(2, func(c *Config) {
		short(c)
		c.OnFetch = func(ctx context.Context, _ uint64, request []byte, to io.Writer) error {
			if string(request) == "endless" {
				err := writeUntilError(to)
				ended <- errors.Join(err, ctx.Err())
				return err
			}
			timer := time.NewTimer(1500 * time.Millisecond)
			defer timer.Stop()
			<-timer.C
			_, err := to.Write(content(16 << 20))
			return err
		}
	})
	body, err := a.Fetch(t.Context(), 2, nil)
	require.NoError(t, err)
	one := make([]byte, 1)
	_, err = io.ReadFull(body, one)
	require.NoError(t, err)
	timer := time.NewTimer(1500 * time.Millisecond) // the caller's own disk is slow
	<-timer.C
	n, err := io.Copy(io.Discard, body)
	require.NoError(t, err)
	require.Equal(t, int64(16<<20-1), n)
	require.NoError(t, body.Close())

	body, err = a.Fetch(t.Context(), 2, []byte("endless"))
	require.NoError(t, err)
	_, err = io.ReadFull(body, one)
	require.NoError(t, err)
	w.network.Isolate("n1", "n2")
	_, err = io.Copy(io.Discard, body)
	require.Error(t, err)
	require.Error(t, <-ended)
	require.NoError(t, body.Close())
}

func TestFetchIsCancelled(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	ended := make(chan struct{})
	w.start(2, func(c *Config) {
		c.OnFetch = func(ctx context.Context, _ uint64, _ []byte, _ io.Writer) error {
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	body, err := a.Fetch(ctx, 2, nil)
	require.NoError(t, err)
	cancel()
	_, err = body.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	require.NoError(t, body.Close())
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	w.start(2, func(c *Config) {
		c.MaxStreams = 2
		c.OnFetch = func(ctx context.Context, _ uint64, _ []byte, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}
	})
	fetch := func() io.Closer {
		body, err := a.Fetch(t.Context(), 2, nil)
		require.NoError(t, err)
		return body
	}
	bodies := []io.Closer{fetch(), fetch()}
	var refused *RefusedError
	_, err := a.Fetch(t.Context(), 2, nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "n2 has no place for another stream", refused.Reason)
	for _, body := range bodies {
		require.NoError(t, body.Close())
	}
	eventually(t, "places are given back", func() bool {
		body, refusal := a.Fetch(t.Context(), 2, nil)
		return refusal == nil && body.Close() == nil
	})
	_, err = a.Fetch(t.Context(), 2, make([]byte, maxHead+1))
	require.ErrorContains(t, err, "at most")
}
