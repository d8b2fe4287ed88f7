package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// An archive that unpacks to more than is allowed is given up, whatever it says of its sizes.
func TestUnpackedIsBounded(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	for _, name := range []string{"a.xml", "xl/sharedStrings.xml"} {
		part, err := writer.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(part, "<sst>"+strings.Repeat("<si><t>"+strings.Repeat("x", 100)+"</t></si>", 100)+"</sst>")
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	opened, err := openArchive(t.Context(), &packed)
	require.NoError(t, err)

	ignore := func(xml.Token) error { return nil }
	opened.left = 30_000
	require.NoError(t, opened.walk("a.xml", ignore))
	require.NoError(t, opened.walk("a.xml", ignore))
	require.ErrorIs(t, opened.walk("a.xml", ignore), ErrUnreadable) // all parts count together

	opened.left, opened.texts = maxUnpacked, 5000
	_, err = opened.sharedTexts()
	require.ErrorIs(t, err, ErrUnreadable)
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

// Documents that are held as a whole wait for their turn before any of their bytes is in memory.
func TestWholeDocumentsTakeTurns(t *testing.T) {
	for mimeType, places := range map[string]int32{
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": maxWholes, "application/pdf": maxWorkers,
	} {
		synctest.Test(t, func(t *testing.T) {
			reader, begun, release := NewReader([]string{"/bin/false"}), new(atomic.Int32), make(chan struct{})
			for range 3 * places {
				go func() { _, _ = reader.Text(t.Context(), mimeType, waiting{begun, release}, 1000) }()
			}
			synctest.Wait()
			require.Equal(t, places, begun.Load())
			close(release)
			synctest.Wait()
			if mimeType != "application/pdf" { // their workers are processes: this clock knows nothing of them
				require.Equal(t, 3*places, begun.Load())
			}
		})
	}
}
