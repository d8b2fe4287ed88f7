package document

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// zipped packs parts, names and contents in turn.
func zipped(tb testing.TB, namesAndContents ...string) []byte {
	tb.Helper()
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	for index := 0; index < len(namesAndContents); index += 2 {
		part, err := writer.Create(namesAndContents[index])
		require.NoError(tb, err)
		_, err = io.WriteString(part, namesAndContents[index+1])
		require.NoError(tb, err)
	}
	require.NoError(tb, writer.Close())
	return packed.Bytes()
}

// An archive that unpacks to more than is allowed is given up, whatever it says of its sizes.
func TestUnpackedIsBounded(t *testing.T) {
	t.Parallel()
	content := "<sst>" + strings.Repeat("<si><t>"+strings.Repeat("x", 100)+"</t></si>", 100) + "</sst>"
	opened, err := openArchive(zipped(t, "a.xml", content, "xl/sharedStrings.xml", content), newBudget(0))
	require.NoError(t, err)

	ignore := func(xml.Token) error { return nil }
	opened.left = 30_000
	require.NoError(t, opened.walk("a.xml", ignore))
	require.NoError(t, opened.walk("a.xml", ignore))
	require.ErrorIs(t, opened.walk("a.xml", ignore), ErrUnreadable) // all parts count together

	opened.left, opened.texts = maxUnpacked, 5000
	_, err = opened.sharedTexts()
	require.ErrorIs(t, err, ErrUnreadable)

	opened.tokens = 600
	require.NoError(t, opened.walk("a.xml", ignore))
	require.ErrorIs(t, opened.walk("a.xml", ignore), ErrUnreadable) // as do their elements
}

// What packs well and unpacks to something that parsers hold at many times its size is refused before they do.
func TestBombs(t *testing.T) {
	const most = maxUnpacked - 1000
	for name, content := range map[string]string{
		"attributes without a value": "<a" + strings.Repeat(" a", most/2) + ">",
		"attributes":                 "<a" + strings.Repeat(` a=""`, most/5) + ">",
		"behind closing brackets":    "<a" + strings.Repeat(` a=">"`, most/6) + ">",
		"a few too many attributes":  "<a" + strings.Repeat(" a", maxAttributes+1) + "/>",
		"one name":                   "<" + strings.Repeat("a", most) + ">",
		"one value":                  `<a b="` + strings.Repeat("a", most) + `">`,
		"one text":                   "<t>" + strings.Repeat("a", most) + "</t>",
		"one section":                "<t><![CDATA[" + strings.Repeat("a", most) + "]]></t>",
		"one comment":                "<!--" + strings.Repeat("a", most) + "-->",
		"one instruction":            "<?a " + strings.Repeat("a", most) + "?>",
		"one declaration":            "<!DOCTYPE " + strings.Repeat("<a>", most/4) + ">",
		"depth":                      strings.Repeat("<a>", maxDepth+1),
		"too much":                   strings.Repeat("<a/>", maxUnpacked/4+1),
	} {
		t.Run(name, func(t *testing.T) {
			packed := zipped(t, "word/document.xml", content)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readWords(packed, &sink{limit: 1 << 20}, newBudget(len(packed)))
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, ErrUnreadable)
			if name != "too much" { // many small ones, one after another
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "of %d packed bytes", len(packed))
			}
		})
	}
}

// The list of parts is judged at the end record that the zip package takes, not at one that only looks like it.
func TestDirectoryIsBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for number := range maxParts + 1 {
		names = append(names, fmt.Sprint("word/", number), "")
	}
	_, err := openArchive(zipped(t, names...), newBudget(0))
	require.ErrorIs(t, err, ErrUnreadable)

	var directory bytes.Buffer
	for range maxDirectory/46 + 1 {
		entry := make([]byte, 46)
		copy(entry, "PK\x01\x02")
		directory.Write(entry)
	}
	ended := func(comment string) []byte {
		end := make([]byte, 22)
		copy(end, "PK\x05\x06")
		binary.LittleEndian.PutUint16(end[8:], 0xFFFF)
		binary.LittleEndian.PutUint16(end[10:], 0xFFFF)
		binary.LittleEndian.PutUint32(end[12:], uint32(directory.Len())) //nolint:gosec // a few MiB
		binary.LittleEndian.PutUint16(end[20:], uint16(len(comment)))    //nolint:gosec // a few bytes
		return append(append(bytes.Clone(directory.Bytes()), end...), comment...)
	}
	require.False(t, smallDirectory(ended("")))
	require.False(t, smallDirectory(ended("PK\x05\x06")), "a mark without room for a record is none")
	require.False(t, smallDirectory(ended("comment PK\x05\x06 of a few bytes")))
	require.True(t, smallDirectory([]byte("PK\x05\x06")))
	require.True(t, smallDirectory(nil))
}

// waiting is a document that begins to come when it is released.
type waiting struct {
	begun   *atomic.Int32
	release <-chan struct{}
}

func (w waiting) Read([]byte) (int, error) {
	w.begun.Add(1)
	<-w.release
	return 0, io.EOF
}

// Documents that are held as a whole wait for their turn before any of their bytes is in memory, whatever they are and
// whoever's; those that wait for too long are told so.
func TestDocumentsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, begun, release := NewReader([]string{"/nowhere"}), new(atomic.Int32), make(chan struct{})
		busy := new(atomic.Int32)
		for kind := range formats {
			for _, tenant := range []string{"a", "b"} {
				go func() {
					if _, err := reader.Text(t.Context(), tenant, kind, waiting{begun, release}, 1000); errors.Is(err, ErrBusy) {
						busy.Add(1)
					}
				}()
			}
		}
		synctest.Wait()
		require.EqualValues(t, maxWorkers, begun.Load())
		_, err := reader.Text(t.Context(), "c", "text/html", waiting{begun, release}, 1000)
		require.ErrorIs(t, err, ErrBusy)
		synctest.Wait()
		require.EqualValues(t, 2*len(formats)-maxWorkers, busy.Load())
		close(release)
		synctest.Wait()
		require.EqualValues(t, maxWorkers, begun.Load())
	})
}

// FuzzOffice has the XML of each kind of document, and archives as they are.
func FuzzOffice(f *testing.F) {
	f.Add([]byte(`<w:document><w:p><w:t>Hello</w:t><w:tab/><w:br/></w:p><w:tc/></w:document>`), 100)
	f.Add([]byte(`<sst><si><t>Name</t></si></sst>`), 10)
	f.Add([]byte(`<row><c t="s"><v>0</v></c><c t="inlineStr"><is><t>x</t></is></c><c><v>-1</v></c></row>`), 50)
	f.Add([]byte(`<a a a a="1" b='2' c=d><![CDATA[x]]><!-- y --><?z?>&lt;&nope;</a>`), 7)
	f.Add(zipped(f, "word/document.xml", "<t>x</t>"), 5)
	f.Add([]byte("PK\x05\x06"), 10)
	f.Fuzz(func(t *testing.T, content []byte, limit int) {
		limit = min(max(limit, 0), 1<<16)
		part := string(content)
		packed := zipped(t,
			"word/document.xml", part, "word/footnotes1.xml", part, "ppt/slides/slide2.xml", part, "ppt/slides/slide1.xml", part,
			"xl/sharedStrings.xml", part, "xl/worksheets/sheet1.xml", part, "xl/worksheets/sheet.xml", part)
		for kind, one := range formats {
			if kind == "application/pdf" { // the library has no bounds on memory but those of its process
				continue
			}
			for _, raw := range [][]byte{packed, bytes.Clone(content)} {
				out := &sink{limit: limit}
				if err := one.read(raw, out, newBudget(len(raw))); err == nil {
					require.False(t, out.over)
				}
				got := out.text()
				require.True(t, utf8.ValidString(got))
				require.LessOrEqual(t, len(got), limit)
			}
		}
	})
}
