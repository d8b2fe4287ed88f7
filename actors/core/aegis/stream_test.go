package aegis_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"parley/actors/core/aegis"
	"parley/actors/core/dlp"
	"parley/proto/directorypb"
)

func redacting(t *testing.T) *aegis.Shield {
	t.Helper()
	shield, wrong := aegis.Of(aegis.Default("t", "p"))
	require.Nil(t, wrong)
	return shield
}

// pieces are what texts of the test are made of: plain ones, and such as are taken out, disguised or not.
func pieces() []string {
	return []string{
		"The order is on its way. ", "meet me at home dot ", "call ", "phone: ", "12 34 56 ", "a b c ", "I ", "\n", "  ", "at ", "x-ray ", "2024-01-02 ", "-----BEGIN ", "é ",
		"4111 1111 1111 1111 ", "4111-1111-1111-1111, ", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 ", "jane.doe@corp.example.com ", "jane (at) corp (dot) com ", "+90 532 123 45 67 ", "TR33 0006 1005 1978 6457 8413 26 ",
		"AKIAIOSFODNN7REALKEY ", "password: hunter22x ", "Authorization: Bearer abcdefghijklmnop1234 ", "https://bob:s3cretpw@db.corp.com/x ",
		"c2tfbGl2ZV81MUg4YWJjZGVmZ2hpamtsbW5vcHFyc3Q= ", "s k _ l i v e _ 5 1 H 8 a b c d e f g h i j k l ", "４１１１ １１１１ １１１１ １１１１ ",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc def\n-----END RSA PRIVATE KEY-----\n", "192.168.10.77 ",
		"-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END PRIVATE KEY-----", "Bearer ", "Authorization: ", "password = ", "\"token\":\"", "k9UHdhDARdQPhuuB", ":", ",", "dot com ", "at", "SWIFT: ", "DEUTDEFF ",
		"born ", "27.11.1990 ", "passport ", "U12345678 ", "0x97b9570cbc3e69557edd8f58a6af3f85ed38b900 ", "2001:db8::8a2e:370:7334 ", "routing ", "021000021 ", "c\u0430ll ", "\u200b", "p a s s w o r d : h u n t e r 2 2 x ",
	}
}

// TestStreamIsClean compares a text that comes in pieces with the same text at once: what is taken out is the same, wherever it is cut.
func TestStreamIsClean(t *testing.T) {
	shield := redacting(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	all := pieces()
	for range 1000 {
		var whole strings.Builder
		for range 1 + random.IntN(8) {
			whole.WriteString(all[random.IntN(len(all))])
		}
		text := whole.String()
		want := shield.Clean(text)
		for _, most := range []int{1, 9, 80} {
			stream := shield.Stream()
			var got strings.Builder
			for rest := text; rest != ""; {
				at := boundary(rest, 1+random.IntN(most))
				got.WriteString(stream.Write(rest[:at]))
				rest = rest[at:]
			}
			got.WriteString(stream.Close())
			require.Equal(t, want, got.String(), "of %q, by up to %d bytes", text, most)
		}
		at := boundary(text, random.IntN(len(text)))
		stream := shield.Stream()
		require.Equal(t, want, stream.Write(text[:at])+stream.Write(text[at:])+stream.Close(), "of %q, cut at %d", text, at)
	}
}

// compared finds what is behind a byte as a shield does, and compares it with what is found in all of the text.
type compared struct{ *testing.T }

func (compared) Open(text string) int { return dlp.Open(text) }

func (compared) Passed(int, int) {}

func (c compared) Cuts(text string, from int) (cuts []aegis.Cut) {
	behind := func(found []dlp.Finding) (cuts []aegis.Cut) {
		for _, f := range found {
			if f.End > from {
				cuts = append(cuts, aegis.Cut{Start: max(f.Start, from), End: f.End, Mark: string(f.Kind)})
			}
		}
		return cuts
	}
	cuts = behind(dlp.Scan(text))
	require.Equal(c.T, cuts, behind(dlp.ScanAfter(text, from)), "of %q behind %q", text[from:], text[:from])
	return cuts
}

// TestStreamLooksBehind: a stream that looks only at what is new finds there what is found in all of its text, however odd what came before is.
func TestStreamLooksBehind(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a test
	all := pieces()
	for range 3000 {
		stream := aegis.NewStream(compared{t})
		most := []int{1, 4, 9, 40}[random.IntN(4)]
		for range 1 + random.IntN(14) {
			for rest := all[random.IntN(len(all))]; rest != ""; {
				at := boundary(rest, 1+random.IntN(most))
				stream.Write(rest[:at])
				rest = rest[at:]
			}
		}
		stream.Close()
	}
}

// boundary is where the character ends that a byte is in.
func boundary(text string, at int) int {
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return min(at, len(text))
}

// TestStreamHoldsLittle says how far plain text is held back: a word, until the next one begins.
func TestStreamHoldsLittle(t *testing.T) {
	stream := redacting(t).Stream()
	require.Empty(t, stream.Write("The"))
	require.Empty(t, stream.Write(" "))
	require.Equal(t, "The ", stream.Write("quick"))
	require.Equal(t, "quick ", stream.Write(" bro"))
	require.Equal(t, "brown", stream.Write("wn")+stream.Close())
}

// TestStreamOfHostileText: what never ends is looked at a bounded number of times for each of its bytes.
func TestStreamOfHostileText(t *testing.T) {
	for _, piece := range []string{"A", "a ", "1 ", "-----BEGIN PRIVATE KEY-----\n", "x at y dot ", "QUJD"} {
		stream := redacting(t).Stream()
		for range 100_000 / len(piece) {
			stream.Write(piece)
		}
		stream.Close()
	}
}

func TestStreamOfShieldThatOnlyWatches(t *testing.T) {
	record := aegis.Default("t", "p")
	record.Mode = aegis.Simulate
	shield, wrong := aegis.Of(record)
	require.Nil(t, wrong)
	require.Equal(t, "mail me@corp.com", shield.Stream().Write("mail me@corp.com"))
	require.Equal(t, "me@corp.com", shield.Clean("me@corp.com"))
	plain, wrong := aegis.Of(&directorypb.Shield{Mode: aegis.Enforce})
	require.Nil(t, wrong)
	require.JSONEq(t, `{"a":"me@corp.com"}`, string(plain.CleanJSON([]byte(`{"a":"me@corp.com"}`))))
	require.JSONEq(t, `{"a":"[REDACTED:email]"}`, string(redacting(t).CleanJSON([]byte(`{"a":"me@corp.com"}`))))
}
