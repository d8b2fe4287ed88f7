package filing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

// TestSniffing: the bytes decide whether it is text; a client may only say which text a text is.
func TestSniffing(t *testing.T) {
	const html, table, latin = "<!DOCTYPE html><p>", "first, second\nthird, fourth\n", "gr\xfc\xdfe"
	for _, c := range []struct{ head, declared, name, want string }{
		{"hello", "", "", "text/plain"},
		{"hello", "text/markdown; charset=utf-8", "", "text/markdown"},
		{"hello", "TEXT/CSV", "", "text/csv"},
		{"hello", "image/png", "a.png", "text/plain"},
		{"hello", "image/svg+xml", "", "text/plain"},
		{"hello", "application/pdf", "", "text/plain"},
		{"hello", "not a type", "", "text/plain"},
		{"%PDF-1.7 x", "text/plain", "", "application/pdf"},
		{`{"a":1}`, "", "", "application/json"},
		{"\x00\x01\x02\x03", "text/plain", "", "application/octet-stream"},
		{"\x89PNG\r\n\x1a\n", "text/csv", "", "image/png"},
		{"\x89PNG\r\n\x1a\n", "text/csv; charset=latin1", "a.csv", "image/png"},
		{"PK\x03\x04\x14\x00", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "", "application/zip"},

		{"<p>Title</p>\n# Use", "text/markdown", "README.md", "text/markdown"},
		{html, "text/plain", "", "text/plain"},
		{`{"a":1}`, "text/plain", "", "text/plain"},
		{table, "text/plain", "note.txt", "text/plain"},
		{"a: 1", "application/yaml", "", "application/yaml"},
		{html, "application/json", "", "application/json"},
		{"BM: buy milk, grüße", "text/plain", "", "text/plain"},
		{"BM: buy milk, gr\xc3", "text/plain", "", "text/plain"},
		{"BM: " + latin, "text/plain; charset=iso-8859-1", "", "text/plain; charset=windows-1252"},

		{latin, "text/plain;charset=ISO-8859-2", "", "text/plain; charset=iso-8859-2"},
		{latin, "text/plain;charset=klingon", "", "text/plain"},
		{"grüße", "text/plain; charset=us-ascii", "", "text/plain"},
		{"h\x00i\x00", "text/plain; charset=utf-16", "", "text/plain; charset=utf-16le"},

		// A name says it where nobody else does.
		{"<p>Title</p>\n# Use", "", "README.md", "text/plain"},
		{"<script setup></script><template></template>", "application/octet-stream", "App.vue", "text/plain"},
		{table, "", "note.txt", "text/plain"},
		{table, "application/vnd.ms-excel", "note.csv", "text/csv"},
		{html, "image/png", "page.png", "text/html"},
		{html, "", "page.HTM", "text/html"},
		{`{"type":"FeatureCollection","features":[{"type":"Feature"}]}`, "", "a.json", "application/json"},
	} {
		require.Equal(t, c.want, sniff([]byte(c.head), c.declared, c.name), "%q as %q, %s", c.head, c.declared, c.name)
	}
}

// TestDownloadsOfText: a charset that was not declared is UTF-8.
func TestDownloadsOfText(t *testing.T) {
	for stored, want := range map[string]string{
		"text/plain": "text/plain; charset=utf-8", "text/plain; charset=koi8-r": "text/plain; charset=koi8-r", "image/png": "image/png",
	} {
		require.Equal(t, want, contentTypeOf(&conversationpb.File{MimeType: stored}))
		require.True(t, harmless(stored))
	}
}

// TestNamesAreAsTheyLook: what turns the direction of writing around, or is not seen, is no part of a file's name.
func TestNamesAreAsTheyLook(t *testing.T) {
	name, refused := CleanName("C:\\invoice\u202Efdp\u200B.exe\u2028")
	require.Nil(t, refused)
	require.Equal(t, "invoicefdp.exe", name)
	_, refused = CleanName("\u202E\u2066")
	require.NotNil(t, refused, "there is no name left")
}
