package document

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// objects makes a PDF of objects, the first of which is the catalog.
func objects(bodies ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.4\n")
	offsets := make([]int, len(bodies))
	for index, body := range bodies {
		offsets[index] = out.Len()
		fmt.Fprintf(&out, "%d 0 obj%s endobj\n", index+1, body)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(bodies)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF", len(bodies)+1, start)
	return out.Bytes()
}

const catalog, helvetica = "<</Pages 2 0 R>>", "<</Type/Font/Subtype/Type1/Encoding/WinAnsiEncoding>>"

func stream(content string) string {
	return fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(content), content)
}

// packed is a stream that is small in the file.
func packed(tb testing.TB, content string) string {
	tb.Helper()
	var out bytes.Buffer
	writer := zlib.NewWriter(&out)
	_, err := io.WriteString(writer, content)
	require.NoError(tb, err)
	require.NoError(tb, writer.Close())
	return fmt.Sprintf("<</Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream", out.Len(), out.String())
}

// readPDF returns a PDF's text and what reading it took.
func readPDF(raw []byte) (text string, work int64, err error) {
	out, left := &sink{limit: 256 << 20}, newBudget(len(raw))
	had := left.left
	err = pages(raw, out, left)
	return out.text(), had - left.left, err
}

// A tree of pages that leads back into itself is found there, and what can be read beside it is read.
func TestPagesThatHoldThemselves(t *testing.T) {
	t.Parallel()
	page := []string{"<</Type/Page/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>", stream("BT /F 9 Tf (good) Tj ET"), helvetica}
	var chain []string
	for number := range maxTree + 2 {
		chain = append(chain, fmt.Sprintf("<</Type/Pages/Count 1/Kids[%d 0 R]>>", number+3))
	}
	var fan []string // 2^60 ways to its end, and back
	for number := range 60 {
		fan = append(fan, fmt.Sprintf("<</Type/Pages/Count 9/Kids[%d 0 R %[1]d 0 R 2 0 R]>>", (number+1)%60+2))
	}
	for name, test := range map[string]struct {
		objects []string
		want    string
	}{
		"itself":         {objects: []string{catalog, "<</Type/Pages/Count 1000000/Kids[2 0 R]>>"}},
		"itself often":   {objects: []string{catalog, "<</Type/Pages/Count 2/Kids[2 0 R 2 0 R 2 0 R]>>"}},
		"each other":     {objects: []string{catalog, "<</Type/Pages/Count 9/Kids[3 0 R]>>", "<</Type/Pages/Count 9/Kids[2 0 R 3 0 R]>>"}},
		"without a type": {objects: []string{catalog, "<</Kids[2 0 R]>>"}},
		"a long way":     {objects: append([]string{catalog}, chain...)},
		"a wide way":     {objects: append([]string{catalog}, fan...)},
		"beside a page": {
			objects: append([]string{catalog, "<</Type/Pages/Count 2/Kids[2 0 R 3 0 R 2 0 R]>>"}, page...), want: "good",
		},
		"beside nothing": {
			objects: append([]string{catalog, "<</Type/Pages/Count 2/Kids[99 0 R 5 0 R 3 0 R]>>"}, page...), want: "good",
		},
		"a parent of itself": {
			objects: []string{
				catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page/Parent 3 0 R/Contents 4 0 R>>", stream("BT /F 9 Tf (x) Tj ET"),
			}, want: "x",
		},
		"a length of itself": {
			objects: []string{
				catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page/Contents 4 0 R>>", "<</Length 4 0 R>>\nstream\nx\nendstream",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, work, err := readPDF(objects(test.objects...))
			require.Equal(t, test.want, text)
			if test.want == "" && name != "a length of itself" {
				require.ErrorIs(t, err, ErrUnreadable)
				require.NotErrorIs(t, err, errSpent, "it is found, not given up")
			} else {
				require.NoError(t, err)
			}
			require.Less(t, work, int64(2<<20))
		})
	}
}

// overOne is a PDF of pages that are all drawn by one stream, which ends in a font of its own.
func overOne(pages int, content string) []byte {
	kids := strings.Repeat("3 0 R ", pages)
	return objects(catalog, fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", pages, kids),
		"<</Type/Page/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>", content, helvetica)
}

// A stream that many pages share is work for each of them: all are read where that is little, and the beginning where it is
// more than a document of its size may cost.
func TestSharedStreams(t *testing.T) {
	t.Parallel()
	small := stream("BT /F 9 Tf (word) Tj ET")
	text, all, err := readPDF(overOne(maxPages, small))
	require.NoError(t, err)
	require.Equal(t, maxPages, strings.Count(text, "word"))
	_, half, err := readPDF(overOne(maxPages/2, small))
	require.NoError(t, err)
	require.Less(t, all, half*5/2, "twice the pages are twice the work")

	line := "BT /F 9 Tf (word) Tj ET " + strings.Repeat(" ", 1000)
	for name, content := range map[string]string{
		"stored": stream(strings.Repeat(line, 50)), "packed": packed(t, strings.Repeat(line, 10_000)),
	} {
		raw := overOne(maxPages, content)
		begun, work, problem := readPDF(raw)
		require.ErrorIs(t, problem, errSpent, name)
		require.Contains(t, begun, "word", name)
		require.LessOrEqual(t, work, newBudget(len(raw)).left+1, name)
	}
	text, _, err = readPDF(overOne(maxPages+1, small))
	require.ErrorIs(t, err, errSpent)
	require.Equal(t, maxPages, strings.Count(text, "word"))
	_, _, err = readPDF(objects(catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Contents["+strings.Repeat("4 0 R ", maxStreams+1)+"]>>", small))
	require.ErrorIs(t, err, ErrUnreadable)
}

// What is referred to at every turn, a font or the table of its characters, is read once or charged each time.
func TestSharedFonts(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange 60000 beginbfchar ")
	for code := range 60_000 {
		fmt.Fprintf(&table, "<%04X> <0041> ", code)
	}
	table.WriteString("endbfchar endcmap")
	var drawn strings.Builder
	for line := range 20_000 {
		fmt.Fprintf(&drawn, "BT /F 9 Tf <%s%04X> Tj ET ", strings.Repeat("FFFE", 10), line)
	}
	document := objects(catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
		packed(t, drawn.String()), "<</Type/Font/Encoding/Identity-H/ToUnicode 6 0 R/FirstChar 0/LastChar 255/Widths 7 0 R>>",
		packed(t, table.String()), "["+strings.Repeat("500 ", 256)+"]")
	text, _, err := readPDF(document)
	require.ErrorIs(t, err, errSpent, "%d", len(document))
	require.NotEmpty(t, text)

	same := stream(strings.Repeat("BT /F 9 Tf <0041> Tj ET ", 20_000))
	_, work, err := readPDF(objects(catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
		same, "<</Type/Font/Encoding/Identity-H/ToUnicode 6 0 R/FirstChar 0/LastChar 255/Widths 7 0 R>>",
		packed(t, table.String()), "["+strings.Repeat("500 ", 256)+"]"))
	require.NoError(t, err)
	require.Less(t, work, int64(len(same)+table.Len())*8, "what is drawn again is decoded once")
}

// What one filter unpacks for the next one is not counted, so there is nothing to unpack it for.
func TestStreamsPackedTwice(t *testing.T) {
	t.Parallel()
	inner := packed(t, "BT /F 9 Tf (x) Tj ET")
	inner = inner[strings.Index(inner, "stream\n")+len("stream\n") : strings.LastIndex(inner, "\nendstream")]
	twice := strings.Replace(packed(t, inner), "/FlateDecode", "[/FlateDecode/FlateDecode]", 1)
	_, _, err := readPDF(overOne(1, twice))
	require.ErrorIs(t, err, ErrUnreadable)
	require.NotErrorIs(t, err, errSpent)
}

// HTML is read without a tree: how deep its tags are makes no difference.
func TestNestedHTML(t *testing.T) {
	t.Parallel()
	const depth = 20_000
	for _, tag := range []string{"div", "b", "table", "svg", "x"} {
		flat := []byte(strings.Repeat("<"+tag+"></"+tag+">", depth) + "text")
		nested := []byte(strings.Repeat("<"+tag+">", depth) + strings.Repeat("</"+tag+">", depth) + "text")
		var took [2]int64
		for index, raw := range [][]byte{flat, nested} {
			work, out := newBudget(len(raw)), &sink{limit: 1 << 20}
			had := work.left
			require.NoError(t, readHTML(raw, out, work))
			require.Equal(t, "text", out.text(), tag)
			took[index] = had - work.left
			require.Less(t, took[index], 2*int64(len(raw)))
		}
		require.Equal(t, took[0], took[1])
	}
}

// How much an archive may unpack to goes by its size, and so does what is read of it, though it unpacks to nothing.
func TestArchivesBySize(t *testing.T) {
	t.Parallel()
	raw := zipped(t, "word/document.xml", "<p><t>word</t></p>"+strings.Repeat("<a/>", maxUnpacked/8))
	out := &sink{limit: 1 << 20}
	require.ErrorIs(t, readWords(raw, out, newBudget(len(raw))), errSpent)
	require.Equal(t, "word", out.text())

	var hollow bytes.Buffer
	writer := zip.NewWriter(&hollow)
	blocks := strings.Repeat("\x00\x00\x00\xff\xff", 200_000) // of nothing
	part, err := writer.CreateRaw(&zip.FileHeader{
		Name: "a.xml", Method: zip.Deflate, CompressedSize64: uint64(len(blocks)), UncompressedSize64: 1,
	})
	require.NoError(t, err)
	_, err = io.WriteString(part, blocks)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	work := newBudget(0)
	opened, err := openArchive(hollow.Bytes(), work)
	require.NoError(t, err)
	ignore := func(xml.Token) error { return nil }
	work.left = 2 * int64(len(blocks))
	for range 4 {
		require.ErrorIs(t, opened.walk("a.xml", ignore), ErrUnreadable)
	}
	require.True(t, work.spent())
}
