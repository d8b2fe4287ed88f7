package httpedge_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

type uploadIn struct {
	Name string `query:"name"`
	Text string `json:"text"`
}

// TakesRaw implements endpoint.RawBody.
func (in *uploadIn) TakesRaw(contentType string) bool {
	return in.Name != "" || contentType != "" && contentType != "application/json"
}

type uploadOut struct {
	Size   int64
	Sum    string
	Name   string
	Text   string
	Type   string
	Length int64
}

func (d *desk) upload(_ context.Context, in *uploadIn, upload *endpoint.Upload) (*uploadOut, error) {
	out := &uploadOut{Name: in.Name, Text: in.Text}
	if upload == nil {
		return out, nil
	}
	if in.Name == "refused" {
		return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "no")
	}
	hash := sha256.New()
	size, err := io.CopyBuffer(hash, struct{ io.Reader }{upload.Body}, make([]byte, 4096))
	if err != nil {
		return nil, err
	}
	out.Size, out.Type, out.Length = size, upload.ContentType, upload.Length
	out.Sum = hex.EncodeToString(hash.Sum(nil))
	return out, nil
}

type downloadIn struct {
	Size int    `path:"size"`
	How  string `query:"how"`
}

// closeRecorder is a file of zeros that knows whether it was closed.
type closeRecorder struct {
	io.Reader
	closed chan struct{}
}

func (c *closeRecorder) Close() error {
	select {
	case c.closed <- struct{}{}:
	default: // of one is enough
	}
	return nil
}

func (d *desk) download(ctx context.Context, in *downloadIn) (*endpoint.File, error) {
	content := pattern(in.Size)
	file := &endpoint.File{
		ContentType: "application/octet-stream", Size: int64(in.Size), ETag: `"abc"`,
		Header: map[string]string{"Content-Disposition": endpoint.Disposition("attachment", `a "ä".bin`)},
		Open: func(offset, length int64) (io.ReadCloser, error) {
			var source io.Reader = bytes.NewReader(content[offset:])
			switch in.How {
			case "fails":
				source = io.MultiReader(bytes.NewReader(content[offset:offset+100_000]), failingReader{})
			case "short":
				source = bytes.NewReader(content[offset : offset+100_000])
			case "waits":
				source = io.MultiReader(bytes.NewReader(content[offset:offset+100_000]), untilDone{ctx})
			case "refused":
				return nil, failure.Verbatim(failurepb.Code_UNAVAILABLE, "not now")
			}
			if length >= 0 && in.How != "short" {
				source = io.LimitReader(source, length)
			}
			return &closeRecorder{source, d.closed}, nil
		},
	}
	if in.How == "unknown" {
		file.Size, file.ETag = -1, ""
	}
	return file, nil
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("disk fell off") }

// untilDone blocks until the request's context ends.
type untilDone struct{ ctx context.Context } //nolint:containedctx // the reader's own

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

func pattern(n int) []byte {
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i * 7 / 3)
	}
	return content
}

func TestUploadIsStreamed(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxBodyBytes = 1024 }))
	content := pattern(300_000)
	sum := sha256.Sum256(content)
	for name, text := range map[string]string{
		"declared": request("POST", "/desk/upload", string(content), "Content-Type", "image/x"),
		"expected": request("POST", "/desk/upload", string(content), "Content-Type", "image/x", "Expect", "100-continue"),
		"chunked": "POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: image/x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunks(content, 7000),
	} {
		t.Run(name, func(t *testing.T) {
			w := b.dial()
			w.t = t
			go func() { _, _ = io.WriteString(w, text+get("/desk/echo/next")) }()
			a := w.answer()
			if a.status == 100 {
				a = w.answer()
			}
			require.Equal(t, 200, a.status, "%s", a.raw)
			require.Equal(t, hex.EncodeToString(sum[:]), a.body["Sum"])
			require.Equal(t, "image/x", a.body["Type"])
			require.Equal(t, "next", w.answer().body["Name"], "the connection goes on")
		})
	}
	t.Run("json", func(t *testing.T) {
		require.Equal(t, "x", b.do(request("POST", "/desk/upload", `{"text":"x","Name":"y"}`)).body["Text"])
		typed := b.do(request("POST", "/desk/upload", `{"text":"x"}`, "Content-Type", "application/json"))
		require.Equal(t, "x", typed.body["Text"])
		require.Empty(t, typed.body["Name"])
		b.refused(413, "too_large", request("POST", "/desk/upload", `{"text":"`+strings.Repeat("x", 2000)+`"}`))
		raw := b.do(request("POST", "/desk/upload?name=n", `{"text":`, "Content-Type", "application/json"))
		require.EqualValues(t, 8, raw.body["Size"], "the input says what is raw")
	})
	t.Run("empty", func(t *testing.T) {
		a := b.do("POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n")
		require.Equal(t, 200, a.status)
		require.Zero(t, a.body["Size"])
	})
	t.Run("refused_half_way", func(t *testing.T) {
		w := b.dial()
		w.t = t
		go func() { _, _ = io.WriteString(w, request("POST", "/desk/upload?name=refused", string(content))) }()
		require.Equal(t, 404, w.answer().status)
	})
	t.Run("cut_off", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 1000\r\n\r\nabc")
		require.NoError(t, w.CloseWrite())
		a := w.answer()
		require.Equal(t, 400, a.status, "%s", a.raw)
		require.True(t, a.close)
	})
	t.Run("cut_off_chunk", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
		require.NoError(t, w.CloseWrite())
		require.Equal(t, 400, w.answer().status)
	})
	require.Empty(t, b.log.with("request failed"), "bad uploads are no fault")
}

func chunks(content []byte, size int) string {
	var text strings.Builder
	for len(content) > 0 {
		n := min(size, len(content))
		text.WriteString(strconv.FormatInt(int64(n), 16) + "\r\n" + string(content[:n]) + "\r\n")
		content = content[n:]
	}
	return text.String() + "0\r\n\r\n"
}

// TestSlowTransfers: who makes progress may take longer than a timeout, who does not is cut off.
func TestSlowTransfers(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) {
		c.ReadTimeout, c.WriteTimeout = 2*time.Second, 2*time.Second
	}))
	t.Run("upload_with_progress", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 1200000\r\n\r\n")
		for range 12 {
			<-time.After(200 * time.Millisecond) // in all longer than the timeout
			w.send(strings.Repeat("x", 100_000))
		}
		a := w.answer()
		require.Equal(t, 200, a.status, "%s", a.raw)
	})
	t.Run("upload_that_trickles", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/upload HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 700000\r\n\r\n")
		go func() {
			for range 500 {
				if _, err := w.Write([]byte("x")); err != nil {
					return
				}
				<-time.After(50 * time.Millisecond)
			}
		}()
		a := w.answer()
		require.Equal(t, 408, a.status)
		require.True(t, a.close)
	})
	t.Run("download_that_nobody_reads", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send(get("/desk/download/50000000"))
		select {
		case <-b.desk.closed:
		case <-time.After(30 * time.Second):
			t.Fatal("still being sent")
		}
	})
}

func TestDownloadRanges(t *testing.T) {
	b := serve(t)
	content := pattern(10_000)
	cases := []struct {
		name, header, value string
		status              int
		contentRange        string
		want                []byte
	}{
		{"whole", "X-Nothing", "x", 200, "", content},
		{"first", "Range", "bytes=0-99", 206, "bytes 0-99/10000", content[:100]},
		{"middle", "Range", "bytes=500-599", 206, "bytes 500-599/10000", content[500:600]},
		{"open", "Range", "bytes=9990-", 206, "bytes 9990-9999/10000", content[9990:]},
		{"beyond", "Range", "bytes=9990-20000", 206, "bytes 9990-9999/10000", content[9990:]},
		{"last", "Range", "bytes=-10", 206, "bytes 9990-9999/10000", content[9990:]},
		{"last_of_more", "Range", "bytes=-20000", 206, "bytes 0-9999/10000", content},
		{"huge", "Range", "bytes=0-99999999999999999999", 206, "bytes 0-9999/10000", content},
		{"outside", "Range", "bytes=10000-", 416, "bytes */10000", nil},
		{"none_at_the_end", "Range", "bytes=-0", 416, "bytes */10000", nil},
		{"several", "Range", "bytes=0-1,5-6", 200, "", content},
		{"backwards", "Range", "bytes=5-2", 200, "", content},
		{"nonsense", "Range", "bytes=a-b", 200, "", content},
		{"minus_only", "Range", "bytes=-", 200, "", content},
		{"other_unit", "Range", "lines=1-2", 200, "", content},
		{"not_changed", "If-None-Match", `"abc"`, 304, "", []byte{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b.desk.closed = make(chan struct{}, 1)
			w := b.dial()
			w.t = t
			a := w.send(get("/desk/download/10000", c.header, c.value)).answer()
			require.Equal(t, c.status, a.status)
			require.Equal(t, c.contentRange, a.header.Get("Content-Range"))
			if c.want != nil {
				require.True(t, bytes.Equal(c.want, a.raw))
				require.Equal(t, `"abc"`, a.header.Get("ETag"))
				require.Equal(t, `attachment; filename="a ___.bin"; filename*=UTF-8''a%20%22%C3%A4%22.bin`, a.header.Get("Content-Disposition"))
			}
			if a.status == 200 || a.status == 206 {
				<-b.desk.closed
			}
			require.Equal(t, 200, w.send(get("/desk/echo/a")).answer().status, "the connection goes on")
		})
	}
	t.Run("if_range", func(t *testing.T) {
		for value, status := range map[string]int{`"abc"`: 206, `"old"`: 200, `W/"abc"`: 200, "Sat, 29 Oct 1994 19:43:31 GMT": 200} {
			b.desk.closed = make(chan struct{}, 1)
			require.Equal(t, status, b.do(get("/desk/download/10000", "Range", "bytes=1-2", "If-Range", value)).status, value)
		}
	})
	t.Run("size_not_known", func(t *testing.T) {
		b.desk.closed = make(chan struct{}, 1)
		a := b.do(get("/desk/download/10000?how=unknown", "Range", "bytes=1-2"))
		require.Equal(t, 200, a.status)
		require.True(t, bytes.Equal(content, a.raw))
		require.Empty(t, a.header.Get("Accept-Ranges"))
		require.Equal(t, "private, no-store", a.header.Get("Cache-Control"))
	})
	t.Run("head", func(t *testing.T) {
		head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+b.addr+"/desk/download/10000", nil)
		require.NoError(t, err)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(head)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
		require.EqualValues(t, 10_000, response.ContentLength)
	})
	t.Run("empty", func(t *testing.T) {
		b.desk.closed = make(chan struct{}, 1)
		require.Equal(t, 200, b.do(get("/desk/download/0")).status)
		require.Equal(t, 416, b.do(get("/desk/download/0", "Range", "bytes=0-")).status)
	})
	t.Run("refused_before_it_began", func(t *testing.T) {
		a := b.refused(503, "unavailable", get("/desk/download/10000?how=refused"))
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.Empty(t, a.header.Get("Content-Disposition"))
		require.Empty(t, a.header.Get("ETag"))
	})
}

// TestBrokenDownload: a file that ends early is never taken for a whole one, and is a fault in the log.
func TestBrokenDownload(t *testing.T) {
	for _, how := range []string{"fails", "short"} {
		t.Run(how, func(t *testing.T) {
			b := serve(t)
			w := b.dial().send(get("/desk/download/1000000?how=" + how))
			response, err := http.ReadResponse(w.reader, nil)
			require.NoError(t, err)
			_, err = io.ReadAll(response.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			_ = response.Body.Close()
			<-b.desk.closed
			require.Eventually(t, func() bool { return len(b.log.with("request failed")) == 1 }, 30*time.Second, 5*time.Millisecond)
			line := b.log.with("request failed")[0]
			require.EqualValues(t, 100_000, line["bytes"])
			require.Equal(t, "/desk/download/1000000", line["path"])
		})
	}
}

// TestStopEndsDownloads: a stop waits for a file that is being sent, then cuts it off.
func TestStopEndsDownloads(t *testing.T) {
	b := serve(t)
	w := b.dial().send(get("/desk/download/1000000?how=waits"))
	response, err := http.ReadResponse(w.reader, nil)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, b.server.Stop(ctx))
	<-b.desk.closed
	_, err = io.ReadAll(response.Body)
	require.Error(t, err)
}

// TestTransfersHoldLittleMemory: 100 MB each way, far less than that on the heap.
func TestTransfersHoldLittleMemory(t *testing.T) {
	const size = 100 << 20
	b := serve(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	body := io.LimitReader(zeros{}, size)
	up, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.addr+"/desk/upload?name=x", body)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(up)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "all that was ever allocated, client included")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// fill sends what takes a place and keeps it, until all are taken; release gives them back. One may meet the asking itself in
// the last place and be refused, so each time another is sent.
func (b *bench) fill(slow string, full func() bool) (release func()) {
	b.t.Helper()
	var held []*wire
	require.Eventually(b.t, func() bool {
		held = append(held, b.dial().send(slow))
		return full()
	}, 30*time.Second, 5*time.Millisecond, "no place is left")
	return func() {
		for _, w := range held {
			require.NoError(b.t, w.Close())
		}
	}
}

// TestTransfersAreBounded: each holds pieces of its file in memory for as long as its client likes.
func TestTransfersAreBounded(t *testing.T) {
	for name, slow := range map[string]string{
		"upload":   "POST /desk/upload?name=x HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nabc",
		"download": get("/desk/download/50000000"),
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, limited(func(c *httpedge.Config) { c.MaxTransfers = 1 }))
			up := request("POST", "/desk/upload?name=x", "bytes")
			release := b.fill(slow, func() bool { return b.do(up).status == 503 })
			b.refused(503, "unavailable", get("/desk/download/10"))
			require.Equal(t, 200, b.do(request("POST", "/desk/upload", `{"text":"x"}`)).status, "no bytes, no place")
			release()
			require.Eventually(t, func() bool { return b.do(up).status == 200 }, 30*time.Second, 5*time.Millisecond)
		})
	}
}

func TestLargeBodiesAreFew(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxBodyBytes, c.MaxLargeBodies = 1024, 1 }))
	large := `{"text":"` + strings.Repeat("x", 5000) + `"}`
	require.Equal(t, 200, b.do(request("POST", "/desk/large", large)).status)
	release := b.fill("POST /desk/large HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{", func() bool {
		return b.do(request("POST", "/desk/large", large)).status == 503
	})
	require.Equal(t, 200, b.do(request("POST", "/desk/large", `{"text":"x"}`)).status, "small ones do not count")
	release()
	require.Eventually(t, func() bool {
		return b.do(request("POST", "/desk/large", large)).status == 200
	}, 30*time.Second, 5*time.Millisecond)
	chunked := "POST /desk/large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks([]byte(large), 300)
	require.Equal(t, 200, b.do(chunked).status)
	b.refused(413, "too_large", request("POST", "/desk/large", `{"text":"`+strings.Repeat("x", 9000)+`"}`))
}
