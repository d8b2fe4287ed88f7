package dlp_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"parley/actors/core/dlp"
)

func TestScan(t *testing.T) {
	for text, want := range map[string]map[string]dlp.Kind{
		"": {},
		"order 4111 1111 1111 1112 is on its way":         {},
		"card 4111-1111-1111-1111, thanks":                {"4111-1111-1111-1111": dlp.CreditCard},
		"4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1":                 {"4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1": dlp.CreditCard},
		"write to ann.lee+x@example.co.uk.":               {"ann.lee+x@example.co.uk": dlp.Email},
		"ann at example dot com, at once":                 {"ann at example dot com": dlp.Email},
		"ann (at) mail (dot) example (dot) com":           {"ann (at) mail (dot) example (dot) com": dlp.Email},
		"а nn@ехаmple.com":                                {"nn@ехаmple.com": dlp.Email},
		"TC 10000000146":                                  {"10000000146": dlp.TCKN},
		"TC 10000000147":                                  {},
		"IBAN DE89 3704 0044 0532 0130 00 please":         {"DE89 3704 0044 0532 0130 00": dlp.IBAN},
		"TR330006100519786457841326":                      {"TR330006100519786457841326": dlp.IBAN},
		"ssn 078-05-1120":                                 {"078-05-1120": dlp.SocialSecurity},
		"id 978-70-1234":                                  {"978-70-1234": dlp.TaxpayerID},
		"+90 532 123 45 67":                               {"+90 532 123 45 67": dlp.Phone},
		"(212) 555-0187":                                  {"(212) 555-0187": dlp.Phone},
		"on 2026-11-27 at 12:30:45":                       {},
		"born 27.11.1990":                                 {"27.11.1990": dlp.BirthDate},
		"from 203.0.113.9 to 127.0.0.1":                   {"203.0.113.9": dlp.IPAddress},
		"2 0x97b9570cbc3e69557edd8f58a6af3f85ed38b900":    {"0x97b9570cbc3e69557edd8f58a6af3f85ed38b900": dlp.CryptoWallet},
		"version 1.2.3.4":                                 {},
		"2001:db8::8a2e:370:7334 there":                   {"2001:db8::8a2e:370:7334": dlp.IPAddress},
		"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq":      {"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq": dlp.CryptoWallet},
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":              {"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa": dlp.CryptoWallet},
		"AKIAIOSFODNN7EXAMPLE":                            {"AKIAIOSFODNN7EXAMPLE": dlp.CloudKeyID},
		"A K I A I O S F O D N N 7 E X A M P L E":         {"A K I A I O S F O D N N 7 E X A M P L E": dlp.CloudKeyID},
		"password: hunter2!, ok":                          {"hunter2!": dlp.AssignedSecret},
		"password: ${PASSWORD}":                           {},
		"x-----BEGIN PRIVATE KEY-----\nMIIE\n":            {"-----BEGIN PRIVATE KEY-----\nMIIE\n": dlp.PrivateKey},
		`{"api_key": "a8f5f167f44f4964e6c998dee827110c"}`: {"a8f5f167f44f4964e6c998dee827110c": dlp.AssignedSecret},
		"Authorization: Bearer abcdef0123456789":          {"abcdef0123456789": dlp.BearerToken},
		"postgres://app:s3cret!@db/x":                     {"s3cret!": dlp.URLPassword},
		"4f9d2c9b0f9c1c6a5f6a1f0d7f2b3c4d5e6f7a8b":        {},
		"VEMgMTAwMDAwMDAxNDYgaXMgbWluZQ==":                {"VEMgMTAwMDAwMDAxNDYgaXMgbWluZQ==": dlp.TCKN},
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n.": {"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": dlp.PrivateKey},
		"٤١١١ ١١١١ ١١١١ ١١١١":                                                     {"٤١١١ ١١١١ ١١١١ ١١١١": dlp.CreditCard},
		"4111\u200b1111\u200b1111\u200b1111":                                      {"4111\u200b1111\u200b1111\u200b1111": dlp.CreditCard},
	} {
		got := map[string]dlp.Kind{}
		for _, f := range dlp.Scan(text) {
			got[text[f.Start:f.End]] = f.Kind
		}
		require.Equal(t, want, got, text)
	}
}

// TestScanAfter: behind where nothing was open when a text was shorter, the same is found as in all of it, whatever it goes on with.
func TestScanAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test
	c := corpus{random}
	plants := c.plants()
	kinds := slices.Sorted(maps.Keys(plants))
	plain := []string{
		" ", "  ", "\n", ". ", ", ", "-", ":", "=", "\"", "at ", "dot ", "(at) ", "A", "1", "12 ", "a b c d e f g h ", "1 2 3 ", "password", "token: ", "Authorization: ", "Bearer ", "swift ", "passport: ",
		"born ", "tel ", "The order is on its way. ", "x@", "://", "é", "\u200b", "４１", "-----BEGIN ", "PRIVATE KEY-----\n", "-----END ", "c2tfbGl2ZV81MUg4YWJjZGVmZ2hpamtsbW5vcHFyc3Q= ", "p a s s w o r d : h u n t e r 2 2 x ",
	}
	for range 5000 {
		var whole strings.Builder
		for range 1 + random.IntN(12) {
			if random.IntN(3) == 0 {
				planted := plants[kinds[random.IntN(len(kinds))]]()
				whole.WriteString(planted.before + planted.what)
				continue
			}
			whole.WriteString(plain[random.IntN(len(plain))])
		}
		text := whole.String()
		n := random.IntN(len(text) + 1)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		from := dlp.Open(text[:n])
		for _, f := range dlp.Scan(text[:n]) {
			if f.Start < from && from < f.End { // which a stream does not give away in part
				from = f.Start
			}
		}
		got := dlp.ScanAfter(text, from)
		var want []dlp.Finding
		for _, f := range dlp.Scan(text) {
			if f.End > from {
				want = append(want, f)
			}
		}
		for _, found := range [][]dlp.Finding{want, got} {
			if len(found) > 0 { // another one may have had what is before
				found[0].Start = max(found[0].Start, from)
			}
		}
		require.True(t, slices.Equal(want, got), "%v, not %v, of %q, from %q", got, want, text, text[from:])
	}
}

// used is the processor time of this process. Prose takes less than a turn at the processor, and what takes longer has to wait for another
// one where others want it, too: the time that passes is no measure of both.
func used(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestNoTextIsSlow: what is made to take long takes some ten times as long as prose; what grows with the square of its length would take
// a thousand times as long, here.
func TestNoTextIsSlow(t *testing.T) {
	const size = 32 << 10
	took := func(piece string) time.Duration {
		text := strings.Repeat(piece, size/len(piece))
		best := time.Hour
		for range 3 {
			before := used(t)
			dlp.Scan(text)
			best = min(best, used(t)-before)
		}
		return best
	}
	prose := took("The order of yesterday was sent to the house at the end of the road, and nobody was there to take it. ")
	for _, piece := range []string{
		"AB12 ", "1 ", "1-", "a=", "a:", "password=", "password: ", "a@", "at dot ", "a ", "://", "sk-", "eyJ.", "-----BEGIN ", "f:", "A", "A+", "é", "a\u200b", "٤ ", "1.1.1.1.",
		"dGVzdA==", "DE89 ", "1" + "\u00a0", "bc1q", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb ", "4111 1111 1111 1112 ", "5 5-5/5.", "swift ABCDEF12 ",
	} {
		require.Less(t, took(piece), 200*prose, "%q beside %s for prose", piece, prose)
	}
}
