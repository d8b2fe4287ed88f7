package document_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/turn/document"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == document.WorkerArgument {
		os.Exit(document.Work(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

const (
	wordType  = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	sheetType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	slideType = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
)

// newReader has workers: this binary, see TestMain.
func newReader() *document.Reader {
	return document.NewReader([]string{os.Args[0], document.WorkerArgument})
}

func text(t *testing.T, kind string, content []byte, limit int) (string, error) {
	t.Helper()
	return newReader().Text(t.Context(), "tenant", kind, bytes.NewReader(content), limit)
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kind, content, want string }{
		{"text/plain", "hello\n", "hello"},
		{"text/plain; charset=utf-8", "\xEF\xBB\xBFgrüß", "grüß"},
		{"TEXT/CSV", "a,b\n1,2", "a,b\n1,2"},
		{"application/json", `{"a":1}`, `{"a":1}`},
		{"application/ld+json", `{}`, `{}`},
		{"image/svg+xml", `<svg/>`, `<svg/>`},
		{"text/x-unknown", "ü\xffb\x00c", "ü\uFFFDbc"}, // damaged
		{"text/x-unknown", "gr\xfc\xdfe\x00, \x80 5", "grüße, € 5"},
		{"text/plain; charset=UTF-8", "gr\xfc\xdfe", "gr\uFFFD\uFFFDe"},
		{"text/plain; charset=koi8-r", "\xd0\xd2\xc9\xd7\xc5\xd4", "привет"},
		{"text/plain; charset=Shift_JIS", "\x82\xb1\x82\xf1", "こん"},
		{"text/plain; charset=utf-16le", "h\x00i\x00\x3D\xD8\x00\xDE", "hi😀"},
		{"text/plain; charset=koi8-r", "\xEF\xBB\xBFgrüß", "grüß"},
		{"text/plain; charset=klingon", "grüß", "grüß"},
		{"text/markdown", "<p>a &amp; b</p>", "<p>a &amp; b</p>"},
		{"text/plain", "\xFF\xFEh\x00i\x00\x3D\xD8\x00\xDE", "hi😀"},
		{"text/plain", "\xFE\xFF\x00h\x00i", "hi"},
		{"text/plain", "", ""},
		{"application/yaml", "a: 1", "a: 1"},
	} {
		got, err := text(t, row.kind, []byte(row.content), 1000)
		require.NoError(t, err)
		require.Equal(t, row.want, got, row)
		require.True(t, document.Supported(row.kind))
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"image/png", "application/octet-stream", "", "nonsense", "video/mp4", "application/zip"} {
		_, err := text(t, kind, []byte("x"), 10)
		require.ErrorIs(t, err, document.ErrUnsupported, kind)
		require.False(t, document.Supported(kind))
	}
	// This binary is not its own worker, and what must be parsed is parsed by one or not at all.
	for _, kind := range []string{"application/pdf", "text/html", wordType, sheetType, slideType} {
		_, err := document.Text(t.Context(), "tenant", kind, strings.NewReader(""), 10)
		require.ErrorIs(t, err, document.ErrUnsupported, kind)
		require.False(t, document.Supported(kind))
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 10_000)
	for _, kind := range []string{"text/plain", "text/html"} {
		for _, limit := range []int{0, 1, 7, 60, 101, 5000} {
			got, err := text(t, kind, []byte(long), limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), limit)
			require.True(t, utf8.ValidString(got))
			if limit > 100 {
				require.True(t, strings.HasSuffix(got, "ü\n[the document is longer; the rest was left out]"), got)
			}
		}
	}
	got, err := text(t, "text/plain", []byte("12345"), 5)
	require.NoError(t, err)
	require.Equal(t, "12345", got)
}

// Only as much is read as is of use.
func TestReadsNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	endless := &counter{}
	_, err := document.Text(t.Context(), "tenant", "text/plain", endless, 1000)
	require.NoError(t, err)
	require.Less(t, endless.read, 100_000)
	endless = &counter{}
	_, err = newReader().Text(t.Context(), "tenant", wordType, endless, 1000)
	require.ErrorIs(t, err, document.ErrUnreadable)
	require.Less(t, endless.read, 2*document.MaxInput)
	endless = &counter{}
	_, err = newReader().Text(t.Context(), "tenant", "text/html", endless, 1000)
	require.NoError(t, err)
	require.Less(t, endless.read, 2*document.MaxInput)
}

type counter struct{ read int }

func (c *counter) Read(buffer []byte) (int, error) {
	for index := range buffer {
		buffer[index] = 'x'
	}
	c.read += len(buffer)
	return len(buffer), nil
}

func TestFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	for _, kind := range []string{"text/plain", wordType} {
		_, err := newReader().Text(t.Context(), "tenant", kind, iotest.ErrReader(broken), 10)
		require.ErrorIs(t, err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	_, err := document.Text(ctx, "tenant", "text/plain", strings.NewReader("x"), 10)
	require.ErrorIs(t, err, broken)
}

func TestHTML(t *testing.T) {
	t.Parallel()
	got, err := text(t, "text/html", []byte(`<!doctype html><html><head><title>T &amp; U</title><style>p{}</style>
		<script>alert("<p>no</p>")</script></head><body><h1>Head</h1><p>One <b>two</b>, three<br>four</p>
		<svg><text>drawn</text></svg><!-- hidden --><ul><li>a</li><li>b</li></ul>
		<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table><noscript>none</noscript>end`), 1000)
	require.NoError(t, err)
	require.Equal(t, "T & U\nHead\nOne two, three\nfour\na\nb\n\t1\t2\n\t3\nend", got)
}

// TestEncodingsOfHTML: what was said decides, then what the page says, then what it looks like.
func TestEncodingsOfHTML(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kind, content, want string }{
		{"text/html; charset=koi8-r", "<meta charset=utf-8><p>\xd0\xd2\xc9", "при"},
		{"text/html", "<meta charset=koi8-r><p>\xd0\xd2\xc9", "при"},
		{"text/html", "<p>gr\xfc\xdfe", "grüße"},
		{"text/html", "<p>" + strings.Repeat("x", 2000) + "<p>grüße", strings.Repeat("x", 2000) + "\ngrüße"},
		{"text/html", "\xFF\xFE<\x00p\x00>\x00h\x00i\x00", "hi"},
	} {
		got, err := text(t, row.kind, []byte(row.content), 5000)
		require.NoError(t, err)
		require.Equal(t, row.want, got, row)
	}
}

// archive zips parts.
func archive(t *testing.T, parts map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for name, content := range parts {
		part, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		require.NoError(t, err)
		_, err = io.WriteString(part, content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return out.Bytes()
}

func TestWords(t *testing.T) {
	t.Parallel()
	got, err := text(t, wordType, archive(t, map[string]string{
		"word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="urn:w"><w:body><w:p><w:r><w:t>Hello</w:t></w:r><w:r><w:tab/>
			<w:t xml:space="preserve"> world</w:t><w:br/><w:t>again</w:t></w:r></w:p><w:p><w:r><w:instrText>FIELD</w:instrText>
			<w:t>Second &lt;</w:t></w:r></w:p></w:body></w:document>`,
		"word/footnotes.xml": `<w:footnotes xmlns:w="urn:w"><w:p><w:t>note</w:t></w:p></w:footnotes>`,
	}), 1000)
	require.NoError(t, err)
	require.Equal(t, "Hello\t world\nagain\nSecond <\nnote", got)
}

func TestSheets(t *testing.T) {
	t.Parallel()
	got, err := text(t, sheetType, archive(t, map[string]string{
		"xl/sharedStrings.xml":     `<sst><si><t>Name</t></si><si><r><t>Ri</t></r><r><t>ch</t></r></si></sst>`,
		"xl/worksheets/sheet2.xml": `<worksheet><sheetData><row><c t="inlineStr"><is><t>inline</t></is></c></row></sheetData></worksheet>`,
		"xl/worksheets/sheet1.xml": `<worksheet><sheetData><row><c t="s"><v>0</v></c><c><v>42.5</v></c></row>
			<row><c t="s"><v>1</v></c><c><f>A1+1</f><v>7</v></c><c t="s"><v>99</v></c></row></sheetData></worksheet>`,
		"xl/worksheets/sheet10.xml": `<worksheet/>`,
	}), 1000)
	require.NoError(t, err)
	require.Equal(t, "[sheet 1]\nName\t42.5\nRich\t7\t99\n\n[sheet 2]\ninline\n\n[sheet 3]", got)
}

func TestSlides(t *testing.T) {
	t.Parallel()
	slide := func(word string) string { return `<p:sld><a:p><a:r><a:t>` + word + `</a:t></a:r></a:p></p:sld>` }
	got, err := text(t, slideType, archive(t, map[string]string{
		"ppt/slides/slide10.xml": slide("ten"), "ppt/slides/slide2.xml": slide("two"), "ppt/slides/_rels/slide2.xml.rels": slide("no"),
	}), 1000)
	require.NoError(t, err)
	require.Equal(t, "[slide 1]\ntwo\n\n[slide 2]\nten", got)
}

func TestBadArchives(t *testing.T) {
	t.Parallel()
	many := make(map[string]string)
	for index := range 50_000 {
		many[fmt.Sprintf("word/%s%d.xml", strings.Repeat("x", 50), index)] = ""
	}
	for name, content := range map[string][]byte{
		"no archive": []byte("PK but not really"),
		"no text":    archive(t, map[string]string{"a": "b"}),
		"many parts": archive(t, many),
		"no XML":     archive(t, map[string]string{"word/document.xml": "<a b='"}),
		"empty":      {},
	} {
		_, err := text(t, wordType, content, 1000)
		require.ErrorIs(t, err, document.ErrUnreadable, name)
	}
}

// paper makes a PDF of pages with one line each.
func paper(lines ...string) []byte {
	contents := make([]string, len(lines))
	for index, line := range lines {
		contents[index] = fmt.Sprintf("BT /F1 12 Tf 50 700 Td (%s) Tj ET", line)
	}
	return drawn(contents...)
}

// drawn makes a PDF of pages as they are drawn.
func drawn(pages ...string) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(offsets), fmt.Sprintf(format, args...))
	}
	out.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for index := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*index)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Count %d /Kids [ %s] >>", len(pages), kids.String())
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for index, content := range pages {
		object("<< /Type /Page /Parent 2 0 R /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*index)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return out.Bytes()
}

func TestPDF(t *testing.T) {
	t.Parallel()
	got, err := text(t, "application/pdf", paper("First page", `Se\374te two`), 1000)
	require.NoError(t, err)
	require.Equal(t, "First page\n\nSeüte two", got)

	newer := append(bytes.Replace(paper("x"), []byte("%PDF-1.4"), []byte("%PDF-2.0"), 1), "\n<!-- added by a mail program -->\n"...)
	got, err = text(t, "application/pdf", newer, 1000)
	require.NoError(t, err)
	require.Equal(t, "x", got)

	got, err = text(t, "application/pdf", paper(strings.Repeat("long ", 100)), 100)
	require.NoError(t, err)
	require.LessOrEqual(t, len(got), 100)
	require.Contains(t, got, "[the document is longer")
}

// Words and lines are made of where glyphs are placed.
func TestPDFLayout(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"BT /F1 10 Tf [(Wo) 20 (rds) -300 (apart)] TJ ET":                              "Words apart",
		"BT /F1 10 Tf 14 TL 50 700 Td (one) Tj T* (two) Tj (three) ' ET":               "one\ntwo\nthree",
		"BT /F1 10 Tf 50 700 Td (one) Tj 0 -12 TD (two) Tj T* (three) Tj ET":           "one\ntwo\nthree",
		"BT /F1 10 Tf 1 0 0 1 50 700 Tm (far) Tj 1 0 0 1 200 700 Tm (off) Tj ET":       "far off",
		"BT /F1 10 Tf 50 700 Td (sub) Tj 15 0 Td (way) Tj ET":                          "subway",
		"BT /F1 10 Tf 50 700 Td (a) Tj ET BT /F1 10 Tf 50 600 Td (b) Tj ET":            "a\nb",
		"BT /F9 10 Tf (unknown font) Tj ET BT (a) Tj Q Q q BI /W 1 ID xx EI ET":        "unknown font a",
		"BT /F1 10 Tf 50 700 Td (before) Tj ET ) ] >> << /broken BT (after) Tj ET end": "before",
	} {
		got, err := text(t, "application/pdf", drawn(content), 1000)
		require.NoError(t, err, content)
		require.Equal(t, want, got, content)
	}
}

// A hostile PDF costs its own process at most.
func TestHostilePDF(t *testing.T) {
	t.Parallel()
	const end = "\nstartxref\n9\n%%EOF"
	for name, content := range map[string]string{
		"empty":      "",
		"no PDF":     "hello",
		"no end":     "%PDF-1.4\n",
		"no xref":    "%PDF-1.4\nhello" + end,
		"huge table": "%PDF-1.4\n1 0 obj << /Type /XRef /Size 40000000000 /W [1 1 1] /Length 3 >>\nstream\nabc\nendstream endobj" + end,
		"large table": "%PDF-1.4\n1 0 obj << /Type /XRef /Size 200000000 /W [1 1 1] /Length 3 >>\nstream\nabc\nendstream endobj" +
			end,
		"wide rows":  "%PDF-1.4\n1 0 obj << /Type /XRef /Size 1 /W [1 90000000000 1] /Length 3 >>\nstream\nabc\nendstream endobj" + end,
		"far object": "%PDF-1.4\nxref\n9999999999 1\n0000000000 00000 n \ntrailer << /Size 1 /Root 1 0 R >>" + end,
	} {
		_, err := text(t, "application/pdf", []byte(content), 1000)
		require.ErrorIs(t, err, document.ErrUnreadable, name)
	}
}

// A table that refers to itself never ends; its process does, with the caller's patience or its own.
func TestEndlessPDF(t *testing.T) {
	t.Parallel()
	content := "%PDF-1.4\n1 0 obj << /Type /XRef /Size 1 /W [1 1 1] /Prev 9 /Length 3 >>\nstream\n\x00\x00\x00\nendstream endobj" +
		"\nstartxref\n9\n%%EOF"
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := newReader().Text(ctx, "tenant", "application/pdf", strings.NewReader(content), 1000)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 30*time.Second)
}

// What the kernel ends, or what has lost its command line, is told apart from a file without text, and ends no more than itself.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string][]string{
		"killed": {"/bin/sh", "-c", "kill -9 $$"}, "failed": {"/bin/sh", "-c", "echo 'out of memory\nat 0x1' >&2; exit 2"}, "absent": {"/nowhere"},
	} {
		_, err := document.NewReader(worker).Text(t.Context(), "tenant", wordType, strings.NewReader("PK"), 1000)
		require.ErrorIs(t, err, document.ErrUnreadable, name)
		require.NotContains(t, err.Error(), "0x1")
		if name == "failed" {
			require.ErrorContains(t, err, "out of memory")
		}
	}
	for _, args := range [][]string{nil, {"10"}, {wordType, "0"}, {wordType, "x"}, {"text/plain", "10"}} {
		var why bytes.Buffer
		require.Equal(t, 2, document.Work(args, strings.NewReader(""), io.Discard, &why), args)
		require.NotEmpty(t, why.String())
	}
}

func FuzzText(f *testing.F) {
	f.Add("text/html", []byte("<p>a<br><script>"), 10)
	f.Add("text/plain", []byte("\xFF\xFEa"), 3)
	f.Add(wordType, []byte("PK\x05\x06"), 10)
	f.Fuzz(func(t *testing.T, kind string, content []byte, limit int) {
		got, err := document.Text(t.Context(), "tenant", kind, bytes.NewReader(content), limit)
		if err == nil {
			require.True(t, utf8.ValidString(got))
			require.LessOrEqual(t, len(got), max(limit, 0))
		}
	})
}

// A PDF of 233 bytes took a worker 15 s: its pages hold themselves.
func TestSmallPDFThatHoldsItself(t *testing.T) {
	t.Parallel()
	content := "%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1000000/Kids[2 0 R]>>endobj\n" +
		"xref\n0 3\n0000000000 65535 f \n0000000009 00000 n \n0000000039 00000 n \ntrailer<</Size 3/Root 1 0 R>>\nstartxref\n94\n%%EOF"
	_, err := text(t, "application/pdf", []byte(content), 1000)
	require.ErrorIs(t, err, document.ErrUnreadable)
	require.ErrorContains(t, err, "hold themselves")
}

// What was read until the work was too much is given, and said to be the beginning.
func TestPDFIsCutAtItsWork(t *testing.T) {
	t.Parallel()
	pages := make([]string, 5001)
	for index := range pages {
		pages[index] = "w"
	}
	got, err := text(t, "application/pdf", paper(pages...), 1<<20)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(got, "w\n\nw"))
	require.True(t, strings.HasSuffix(got, "[the document is longer; the rest was left out]"), got[len(got)-100:])
}

// object stream 3 of this document, by its entries, has to hold the catalog.
func inStream(header, content string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.5\n")
	holder := out.Len()
	fmt.Fprintf(&out, "3 0 obj<<%s/Length %d>>\nstream\n%s\nendstream\nendobj\n", header, len(content), content)
	table := out.Len()
	entries := []byte{0, 0, 0, 0, 1, 0, byte(table), 0, 2, 0, 3, 0, 1, 0, byte(holder), 0}
	if holder == 9 && header == "" {
		copy(entries[12:], []byte{2, 0, 3, 0}) // the stream is in itself
	}
	fmt.Fprintf(&out, "1 0 obj<</Type/XRef/Size 4/W[1 2 1]/Root 2 0 R/Length %d>>\nstream\n%s\nendstream\nendobj\n", len(entries), entries)
	fmt.Fprintf(&out, "startxref\n%d\n%%%%EOF", table)
	return out.Bytes()
}

// What the library does without reading, the kernel ends: after two seconds of processor time for a small document.
func TestObjectStreamsInCircles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{
		"in itself":         inStream("", "x"),
		"extends itself":    inStream("/Type/ObjStm/N 1/First 4/Extends 3 0 R", "9 0 null"),
		"of endless length": inStream("/Type/ObjStm/N 1000000000000000000/First 4", "9 0 null"),
	} {
		_, err := text(t, "application/pdf", content, 1000)
		for errors.Is(err, document.ErrBusy) { // the machine had no two seconds of processor time in a minute
			_, err = text(t, "application/pdf", content, 1000)
		}
		require.ErrorIs(t, err, document.ErrUnreadable, name)
		t.Log(name, err)
	}
}

// While the slowest documents of one tenant are read, and many of them wait, another one's is read.
func TestAnotherTenantsDocument(t *testing.T) {
	t.Parallel()
	reader, slow := newReader(), inStream("/Type/ObjStm/N 1000000000000000000/First 4", "9 0 null")
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var ended atomic.Int32
	begun := make(chan struct{}, 14)
	for range cap(begun) {
		readers.Go(func() {
			_, _ = reader.Text(ctx, "slow", "application/pdf", io.MultiReader(telling(begun), bytes.NewReader(slow)), 1000)
			ended.Add(1)
		})
	}
	<-begun
	got, err := reader.Text(t.Context(), "good", "application/pdf", bytes.NewReader(paper("good")), 1000)
	require.Zero(t, ended.Load(), "it did not wait for one of them")
	cancel()
	readers.Wait()
	require.NoError(t, err)
	require.Equal(t, "good", got)
}

// telling is the empty beginning of a document, and tells that it is read.
type telling chan<- struct{}

func (t telling) Read([]byte) (int, error) {
	t <- struct{}{}
	return 0, io.EOF
}
