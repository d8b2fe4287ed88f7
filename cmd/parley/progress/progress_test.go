package progress

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := start(&out, true, Bytes)
		b.Begin(Phase{Name: "copying", Total: 10 << 20})
		time.Sleep(100 * time.Millisecond) // work and drawing are never due at once
		for range 10 {
			n, err := io.Copy(io.Discard, b.Reader(strings.NewReader(strings.Repeat("x", 512<<10))))
			require.NoError(t, err)
			require.EqualValues(t, 512<<10, n)
			time.Sleep(time.Second)
		}
		b.Close()
		b.Close()
		lines := strings.Split(out.String(), "\r")
		require.Len(t, lines, 1+50+1, "five a second, and no more")
		require.Equal(t, "\x1b[K", lines[51], "nothing is left on the line")
		require.Equal(t, "copying               [##########----------]   50%  5.0 MiB of 10.0 MiB  485.8 KiB/s  11s left\x1b[K", lines[50])
	})
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := start(&out, false, Things)
		b.Begin(Phase{Name: "measuring", Takes: 40 * time.Second})
		time.Sleep(500 * time.Millisecond)
		for range 30 {
			time.Sleep(time.Second)
			b.Add(50)
		}
		b.Fail()
		b.Begin(Phase{Name: "waiting"})
		time.Sleep(10 * time.Second)
		b.Begin(Phase{Name: "more than was said", Total: 10})
		b.Add(20)
		time.Sleep(10 * time.Second)
		b.Close()
		b.Close()
		require.Equal(t, "measuring              25%  450  45/s  30s left\n"+
			"measuring              50%  950  50/s  20s left\n"+
			"measuring              75%  1450  50/s  10s left\n"+
			"waiting               0  0/s  1 failed\n"+
			"more than was said    20  2/s  1 failed\n", out.String())
	})
}

func TestOfNothing(t *testing.T) {
	var none *Bar
	none.Begin(Phase{})
	none.Add(1)
	none.Fail()
	none.Close()
	text, err := io.ReadAll(none.Reader(strings.NewReader("x")))
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
	require.False(t, IsTerminal(&bytes.Buffer{}))
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	require.False(t, IsTerminal(file))
	require.NoError(t, file.Close())
}
