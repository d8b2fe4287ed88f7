package filing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSniffing: the bytes decide; a client may only say which text a text is.
func TestSniffing(t *testing.T) {
	for _, c := range []struct{ head, declared, want string }{
		{"hello", "", "text/plain"},
		{"hello", "text/markdown; charset=utf-8", "text/markdown"},
		{"hello", "TEXT/CSV", "text/csv"},
		{"hello", "image/png", "text/plain"},
		{"hello", "application/pdf", "text/plain"},
		{"hello", "not a type", "text/plain"},
		{"%PDF-1.7 x", "text/plain", "application/pdf"},
		{"<!DOCTYPE html><p>", "text/plain", "text/html"},
		{`{"a":1}`, "text/plain", "application/json"},
		{"\x00\x01\x02\x03", "text/plain", "application/octet-stream"},
		{"\x89PNG\r\n\x1a\n", "text/csv", "image/png"},
		{"PK\x03\x04\x14\x00", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/zip"},
	} {
		require.Equal(t, c.want, sniff([]byte(c.head), c.declared), "%q as %q", c.head, c.declared)
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
