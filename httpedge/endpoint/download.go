package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"parley/actors/core/naming"
)

// writeFile answers with a file, or the part of it that was asked for.
func (x *exchange) writeFile(file *File) error {
	if file.ETag != "" && matches(x.Header("If-None-Match"), file.ETag) {
		x.fileHeaders(file)
		x.rc.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	if file.Open == nil {
		x.fileHeaders(file)
		x.rc.SetStatusCode(x.route.Status)
		x.rc.Response.SetBodyRaw(file.Body)
		return nil
	}
	chosen, partial := x.partOf(file)
	if partial && chosen.length == 0 {
		x.rc.Response.Header.Set("Content-Range", "bytes */"+strconv.FormatInt(file.Size, 10))
		return &Problem{
			Status: fasthttp.StatusRequestedRangeNotSatisfiable, Code: codeBadRange,
			Message: fmt.Sprintf("the file has %d bytes", file.Size),
		}
	}
	var source io.ReadCloser
	if !x.rc.IsHead() {
		if failure := x.takeTransfer(); failure != nil {
			return failure
		}
		var err error
		if source, err = file.Open(chosen.offset, chosen.length); err != nil {
			return err
		}
	}
	header := &x.rc.Response.Header
	x.fileHeaders(file)
	x.rc.SetStatusCode(x.route.Status)
	if file.Size >= 0 {
		header.Set("Accept-Ranges", "bytes")
	}
	if partial {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", chosen.offset, chosen.offset+chosen.length-1, file.Size))
		x.rc.SetStatusCode(fasthttp.StatusPartialContent)
	}
	if source == nil {
		x.rc.Response.SetBodyStream(bytes.NewReader(nil), int(chosen.length))
		return nil
	}
	x.down = &download{
		x: x, source: source, left: chosen.length,
		method: x.Method(), path: string(x.rc.URI().PathOriginal()), status: x.rc.Response.StatusCode(),
	}
	if chosen.length < 0 && http10(x.rc) {
		x.sendUnchunked(x.down)
		return nil
	}
	x.rc.Response.SetBodyStream(x.down, int(chosen.length))
	return nil
}

func (x *exchange) fileHeaders(file *File) {
	header := &x.rc.Response.Header
	header.SetContentType(file.ContentType)
	cacheControl := "private, no-store"
	if file.ETag != "" {
		cacheControl = "no-cache"
		header.Set("ETag", file.ETag)
	}
	header.Set("Cache-Control", cacheControl)
	for name, value := range file.Header {
		header.Set(name, value)
	}
}

// part is a range of a file; a length below 0 is not known.
type part struct{ offset, length int64 }

// partOf decides what of a file is sent, and whether as a part (RFC 9110, section 14); a part of length 0 is none that
// can be. Several ranges at once are not served: the whole file is, as for a Range that is no list of byte ranges.
func (x *exchange) partOf(file *File) (chosen part, partial bool) {
	whole := part{0, max(file.Size, -1)}
	asked := x.Header("Range")
	if file.Size < 0 || asked == "" || !x.rc.IsGet() {
		return whole, false
	}
	if since := x.Header("If-Range"); since != "" && (since != file.ETag || strings.HasPrefix(since, "W/")) {
		return whole, false
	}
	if chosen, partial = parseRange(asked, file.Size); !partial {
		return whole, false
	}
	return chosen, true
}

// parseRange reads one byte range. A length of 0 says that nothing of the file is in it; ok is false for what is to be
// ignored.
func parseRange(text string, size int64) (chosen part, ok bool) {
	spec, ok := strings.CutPrefix(text, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return part{}, false
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return part{}, false
	}
	if first == "" { // the last so many bytes
		n, valid := digits(last)
		n = min(n, size)
		return part{size - n, n}, valid
	}
	from, valid := digits(first)
	if !valid {
		return part{}, false
	}
	to := size - 1
	if last != "" {
		n, valid := digits(last)
		if !valid || n < from {
			return part{}, false
		}
		to = min(n, to)
	}
	if from > to {
		return part{}, true
	}
	return part{from, to - from + 1}, true
}

// digits reads a number without a sign; one that is too large to be true is cut.
func digits(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 1<<63 - 1, true
	}
	return n, err == nil
}

// matches says whether an If-None-Match header names an entity tag.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == etag || candidate == "*" {
			return true
		}
	}
	return false
}

// download is a file on its way out. fasthttp reads it after the handler has returned and closes it whatever happens;
// the request ends with that.
type download struct {
	x            *exchange
	source       io.ReadCloser
	left         int64 // -1 = until the source ends
	sent, moved  int64
	method, path string // copies: by the time of Close the request may be gone
	status       int
	err          error
	closed       bool
}

// Read implements io.Reader. That it is called says that what was read before is written: the client makes progress.
func (d *download) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if d.left > 0 && int64(len(p)) > d.left {
		p = p[:d.left]
	}
	if wait := d.x.mux.config.WriteTimeout; wait > 0 && d.sent-d.moved >= progress {
		d.moved = d.sent
		_ = d.x.rc.Conn().SetWriteDeadline(time.Now().Add(wait)) // of a dead connection: the next write says so
	}
	n, err := d.source.Read(p)
	d.sent += int64(n)
	if d.left > 0 {
		d.left -= int64(n)
	}
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		d.err = err
	case d.left > 0:
		err = io.ErrUnexpectedEOF
		d.err = fmt.Errorf("the file ends %d bytes early: %w", d.left, err)
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.source.Close()
	if d.x.cause == nil {
		d.x.cause = d.err
	}
	d.x.finish()
	return err
}

// Disposition is the value of a Content-Disposition header: "attachment" or "inline" with a file's name, as RFC 6266
// asks for: an ASCII form for all, and the name itself in UTF-8.
func Disposition(kind, name string) string {
	const hex = "0123456789ABCDEF"
	var plain, encoded strings.Builder
	exact := true
	for _, r := range naming.Plain(strings.ToValidUTF8(name, "\uFFFD")) {
		switch {
		case r == '"' || r == '\\' || r == '%' || r < ' ' || r > '~':
			plain.WriteByte('_')
			exact = false
		default:
			plain.WriteRune(r)
		}
		var buffer [utf8.UTFMax]byte
		for _, c := range buffer[:utf8.EncodeRune(buffer[:], r)] {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
				encoded.WriteByte(c)
				continue
			}
			encoded.WriteByte('%')
			encoded.WriteByte(hex[c>>4])
			encoded.WriteByte(hex[c&0xF])
		}
	}
	value := kind + `; filename="` + plain.String() + `"`
	if !exact {
		value += "; filename*=UTF-8''" + encoded.String()
	}
	return value
}
