package peer

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchPair is two transports without a relay between them; arrived is called at the second.
func benchPair(b *testing.B, encrypted bool, atFirst, atSecond func()) (first, second *Transport) {
	b.Helper()
	dir := b.TempDir()
	addresses := make(map[uint64]string)
	make1 := func(id uint64, arrived func()) *Transport {
		listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
		require.NoError(b, err)
		addresses[id] = listener.Addr().String()
		cfg := Config{
			Hello: testHello(id), Listener: listener,
			Address:  func(node uint64) (string, bool) { return addresses[node], true },
			OnFrames: func(uint64, Kind, [][]byte) { arrived() },
		}
		if encrypted {
			cfg.ServerTLS, cfg.ClientTLS = secure(b, dir, name(id), time.Hour)
		}
		t, err := New(cfg)
		require.NoError(b, err)
		return t
	}
	first, second = make1(1, atFirst), make1(2, atSecond)
	first.Start()
	second.Start()
	b.Cleanup(first.Stop)
	b.Cleanup(second.Stop)
	return first, second
}

// BenchmarkRoundTrip is a batch there and one back: what a commit on two nodes waits for beside the disks.
func BenchmarkRoundTrip(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		b.Run(fmt.Sprintf("encrypted=%v", encrypted), func(b *testing.B) {
			frames := [][]byte{make([]byte, 700), make([]byte, 100)}
			back := make(chan struct{}, 1)
			var second *Transport
			var first *Transport
			first, second = benchPair(b, encrypted, func() { back <- struct{}{} }, func() { second.Send(1, KindRaft, frames[1:]) })
			first.Send(2, KindRaft, frames)
			<-back
			b.ReportAllocs()
			for b.Loop() {
				first.Send(2, KindRaft, frames)
				<-back
			}
		})
	}
}

// BenchmarkThroughput is batches of 10 messages of 700 bytes as fast as they are taken.
func BenchmarkThroughput(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		b.Run(fmt.Sprintf("encrypted=%v", encrypted), func(b *testing.B) {
			frames := make([][]byte, 10)
			for i := range frames {
				frames[i] = make([]byte, 700)
			}
			window := make(chan struct{}, 1000)
			first, _ := benchPair(b, encrypted, func() {}, func() { <-window })
			b.SetBytes(7000)
			b.ReportAllocs()
			for b.Loop() {
				window <- struct{}{}
				first.Send(2, KindRaft, frames)
			}
			b.ReportMetric(value(b, first.metrics.sentWrites)/float64(b.N), "writes/op")
		})
	}
}
