package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

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
