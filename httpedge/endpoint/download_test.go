package endpoint

import (
	"mime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/naming"
)

// TestRangesStayInside: whatever a client asks for, what is sent lies in the file.
func TestRangesStayInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 1<<40).Draw(t, "size")
		text := rapid.OneOf(
			rapid.StringMatching(`bytes=[0-9]{0,14}-[0-9]{0,14}`),
			rapid.StringMatching(`(bytes|lines)?=?[0-9a-z, -]{0,12}`),
			rapid.String(),
		).Draw(t, "range")
		chosen, ok := parseRange(text, size)
		if !ok || chosen.length == 0 {
			return
		}
		if chosen.offset < 0 || chosen.length < 0 || chosen.offset+chosen.length > size {
			t.Fatalf("%q of %d bytes: %+v", text, size, chosen)
		}
	})
}

// TestDispositionCannotBeBrokenOut: any name stays one parameter of one header, and comes back as it was.
func TestDispositionCannotBeBrokenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z"\\%;\r\n ./é]{1,12}`)).Draw(t, "name")
		value := Disposition("attachment", name)
		if i := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Fatalf("%q has a character that no header may have", value)
		}
		kind, parameters, err := mime.ParseMediaType(value)
		if err != nil || kind != "attachment" {
			t.Fatalf("%q of %q: %q, %v", value, name, kind, err)
		}
		want := name
		if !utf8.ValidString(name) {
			want = strings.ToValidUTF8(name, "\uFFFD")
		}
		if want = naming.Plain(want); parameters["filename"] != want {
			t.Fatalf("%q of %q is %q", value, name, parameters["filename"])
		}
	})
	require.Equal(t, `inline; filename="a b.txt"`, Disposition("inline", "a b.txt"))
	require.Equal(t, `inline; filename="invoicefdp.exe"`, Disposition("inline", "invoice\u202Efdp.exe"), "it does not look like a PDF")
}
