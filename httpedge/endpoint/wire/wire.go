// Package wire appends the values that the surfaces write most to JSON: texts, times, money. It is what encoding/json
// would write with HTML escaping off, some five times faster; a property test holds the two together.
//
// It writes values only. Where commas and braces go is the business of the caller, who knows the record.
package wire

import (
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends a text as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028', r == '\u2029': // line ends to a script, so that JSON stays valid JavaScript
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plain returns where, from i on, the next byte may be that is not written as it is. It looks at eight bytes at a time:
// a byte's top bit in the mask is set when it is above 0x7F, below 0x20, a quote or a backslash. Borrows may set more
// of them, which the caller's closer look makes up for; they cannot clear one.
func plain(s string, i int) int {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if (w|(w-ones*' ')|((w^ones*'"')-ones)|((w^ones*'\\')-ones))&tops != 0 {
			break
		}
	}
	return i
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}

// AppendTime appends Unix milliseconds as an ISO 8601 time with milliseconds and Z, quoted. Times outside of the
// years 0 to 9999 are cut to that range.
func AppendTime(dst []byte, unixMilli int64) []byte {
	const (
		first     = -62167219200000 // 0000-01-01
		last      = 253402300799999 // 9999-12-31
		dayMillis = 24 * 60 * 60 * 1000
	)
	unixMilli = min(max(unixMilli, first), last)
	days, rest := unixMilli/dayMillis, unixMilli%dayMillis
	if rest < 0 {
		days, rest = days-1, rest+dayMillis
	}
	year, month, day := civil(days)
	dst = append(dst, '"', digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(month/10), digit(month), '-', digit(day/10), digit(day), 'T')
	hour, minute, second, milli := rest/3600000, rest/60000%60, rest/1000%60, rest%1000
	return append(dst, digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':',
		digit(second/10), digit(second), '.', digit(milli/100), digit(milli/10), digit(milli), 'Z', '"')
}

func digit(n int64) byte { return '0' + byte(n%10) }

// civil turns days since 1970-01-01 into a date of the Gregorian calendar. It counts in eras of 400 years that begin
// in March, so that the leap day is the last day of a year.
func civil(days int64) (year, month, day int64) {
	const eraDays = 146097
	days += 719468 // from 0000-03-01
	era := days / eraDays
	if days < 0 {
		era = (days - eraDays + 1) / eraDays
	}
	ofEra := days - era*eraDays
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*ofYear + 2) / 153 // 0 = March
	day = ofYear - (153*shifted+2)/5 + 1
	month = shifted + 3
	year = yearOfEra + era*400
	if month > 12 {
		month, year = month-12, year+1
	}
	return year, month, day
}

// AppendObject appends raw JSON of an object, or {} when there is none.
func AppendObject(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, '{', '}')
	}
	return append(dst, raw...)
}
