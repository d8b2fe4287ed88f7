package export_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledongthuc/pdf"
	"github.com/stretchr/testify/require"

	"parley/httpedge/export"
)

// browser finds a real one. The tests that need it are skipped where there is none.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser on this machine")
	return ""
}

// pretender is a program in place of a browser. $out is where the PDF belongs.
func pretender(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "browser")
	text := "#!/bin/sh\nfor a in \"$@\"; do case \"$a\" in --print-to-pdf=*) out=\"${a#--print-to-pdf=}\";; esac; done\n" + script
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

func printer(t *testing.T, config export.ChromiumConfig) *export.Chromium {
	t.Helper()
	if config.TempDir == "" {
		config.TempDir = shortDir(t)
	}
	made, err := export.NewChromium(config)
	require.NoError(t, err)
	return made
}

// shortDir is a folder whose path has room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "px") //nolint:usetesting // t.TempDir has the test's name in it
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestChromiumPrints(t *testing.T) {
	dir := shortDir(t)
	p := printer(t, export.ChromiumConfig{Path: browser(t), Timeout: time.Minute, TempDir: dir})
	page := export.Stream(export.HTML(export.Options{Locale: locale(t, "tr"), Tools: true, Print: true}),
		conversation(), pages(messages(), 2))
	var out bytes.Buffer
	require.NoError(t, p.PDF(t.Context(), page, &out))
	read, err := pdf.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	plain, err := read.GetPlainText()
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.Contains(t, string(text), "Sunny")
	require.Contains(t, string(text), "zmir")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays behind")
}

// TestChromiumReachesNothing: a page that does what ours never do still calls nobody and runs nothing.
func TestChromiumReachesNothing(t *testing.T) {
	hits := make(chan struct{}, 16)
	address := listen(t, hits)
	p := printer(t, export.ChromiumConfig{Path: browser(t), Timeout: time.Minute})
	page := `<!doctype html><p id=x>before</p><img src="http://` + address + `/i.png"><link rel=stylesheet href="http://` + address +
		`/s.css"><script>document.getElementById("x").textContent="scripted"</script><iframe src="http://` + address + `/f"></iframe>`
	var out bytes.Buffer
	require.NoError(t, p.PDF(t.Context(), strings.NewReader(page), &out))
	require.Empty(t, hits)
	read, err := pdf.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	plain, err := read.GetPlainText()
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.Contains(t, string(text), "before")
}

func TestBrowserThatMisbehaves(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"fails":       {"echo broken pipe of dreams >&2; exit 3", "broken pipe of dreams"},
		"no_pdf":      {"exit 0", "made no PDF"},
		"no_real_pdf": {"echo hello >$out", "is no PDF"},
		"huge":        {"printf '%%PDF-' >$out; head -c 20000 /dev/zero >>$out", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := printer(t, export.ChromiumConfig{Path: pretender(t, c.script), MaxBytes: 10_000, TempDir: dir})
			var out bytes.Buffer
			require.ErrorContains(t, p.PDF(t.Context(), strings.NewReader("x"), &out), c.want)
			require.Zero(t, out.Len(), "nothing of a PDF that is not whole")
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	t.Run("page_too_large", func(t *testing.T) {
		p := printer(t, export.ChromiumConfig{Path: pretender(t, "exit 0"), MaxBytes: 10})
		err := p.PDF(t.Context(), strings.NewReader(strings.Repeat("x", 11)), io.Discard)
		require.ErrorIs(t, err, export.ErrTooLarge)
	})
	t.Run("page_breaks_off", func(t *testing.T) {
		p := printer(t, export.ChromiumConfig{Path: pretender(t, "exit 0")})
		gone := errors.New("gone")
		require.ErrorIs(t, p.PDF(t.Context(), io.MultiReader(strings.NewReader("x"), failing{gone}), io.Discard), gone)
	})
	_, err := export.NewChromium(export.ChromiumConfig{Path: "no-such-browser-here"})
	require.Error(t, err)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestBrowserThatHangs: its time is limited, and what it has started ends with it.
func TestBrowserThatHangs(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "alive")
	path := pretender(t, "(sleep 3; touch "+mark+") &\nsleep 60\n")
	p := printer(t, export.ChromiumConfig{Path: path, Timeout: 200 * time.Millisecond})
	began := time.Now()
	err := p.PDF(t.Context(), strings.NewReader("x"), io.Discard)
	require.ErrorIs(t, err, export.ErrTimeout)
	var unavailable interface{ Unavailable() bool }
	require.True(t, errors.As(err, &unavailable) && unavailable.Unavailable())
	require.Less(t, time.Since(began), 30*time.Second)
	require.Never(t, func() bool { _, err := os.Stat(mark); return err == nil }, 3500*time.Millisecond, 100*time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	long := printer(t, export.ChromiumConfig{Path: path, Timeout: time.Minute})
	require.Error(t, long.PDF(ctx, strings.NewReader("x"), io.Discard), "the caller's end is the browser's")
}

// TestBrowserThatDoesNotEnd: a PDF is taken once it is whole, and the browser and what it has started end.
func TestBrowserThatDoesNotEnd(t *testing.T) {
	ended := filepath.Join(t.TempDir(), "ended")
	require.NoError(t, syscall.Mkfifo(ended, 0o600))
	// Whoever opens the fifo for reading gets its end when the last process that holds it for writing has gone.
	path := pretender(t, "exec 9>"+ended+"\nsleep 1000 &\nprintf '%%PDF-1.4 half' >$out; sleep 0.3; printf ' whole\\n%%%%EOF\\n' >>$out\nsleep 1000\n")
	p := printer(t, export.ChromiumConfig{Path: path, Timeout: time.Hour, Idle: time.Hour})
	closed := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(ended)
		closed <- err
	}()
	var out bytes.Buffer
	require.NoError(t, p.PDF(t.Context(), strings.NewReader("x"), &out))
	require.Equal(t, "%PDF-1.4 half whole\n%%EOF\n", out.String())
	require.NoError(t, <-closed)
}

// TestBrowserThatDoesNothing: another one is started in its place, with another profile, and no third one.
func TestBrowserThatDoesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process does is known on Linux only")
	}
	seen := filepath.Join(t.TempDir(), "seen")
	script := "for a in \"$@\"; do case \"$a\" in --user-data-dir=*) profile=\"${a##*/}\";; esac; done\necho $profile >>" + seen + "\n"
	p := printer(t, export.ChromiumConfig{
		Path:    pretender(t, script+"[ $(wc -l <"+seen+") -gt 1 ] || sleep 1000\nprintf '%%PDF-1.4\\n%%%%EOF' >$out\nsleep 1000\n"),
		Timeout: time.Hour, Idle: 2 * time.Second,
	})
	var out bytes.Buffer
	require.NoError(t, p.PDF(t.Context(), strings.NewReader("x"), &out))
	require.Equal(t, "%PDF-1.4\n%%EOF", out.String())
	p = printer(t, export.ChromiumConfig{Path: pretender(t, script+"sleep 1000\n"), Timeout: time.Hour, Idle: 500 * time.Millisecond})
	require.ErrorIs(t, p.PDF(t.Context(), strings.NewReader("x"), io.Discard), export.ErrTimeout)
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Equal(t, "first\nsecond\nfirst\nsecond\n", string(text))
}

// TestBrowserThatWorks: one that takes its time is let be.
func TestBrowserThatWorks(t *testing.T) {
	path := pretender(t, "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done\nprintf '%%PDF-1.4' >$out\n")
	p := printer(t, export.ChromiumConfig{Path: path, Timeout: time.Hour, Idle: time.Second})
	require.NoError(t, p.PDF(t.Context(), strings.NewReader("x"), io.Discard))
}

func TestFewBrowsersAtATime(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "go")
	path := pretender(t, "while [ ! -e "+gate+" ]; do sleep 0.02; done; printf '%%PDF-1.4' >$out")
	p := printer(t, export.ChromiumConfig{Path: path, MaxConcurrent: 1, MaxWaiting: 1, TempDir: t.TempDir()})
	results := make(chan error, 8)
	for range 8 {
		go func() { results <- p.PDF(t.Context(), strings.NewReader("x"), io.Discard) }()
	}
	for range 6 {
		require.ErrorIs(t, <-results, export.ErrBusy)
	}
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, <-results)
	require.NoError(t, <-results)
}

// listen tells hits of every connection.
func listen(t *testing.T, hits chan<- struct{}) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			hits <- struct{}{}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-done
	})
	return listener.Addr().String()
}
