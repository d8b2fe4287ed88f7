package model

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// JSON writes a character beyond U+FFFF in two halves, and some services send each in a piece of its own. A decoder of JSON takes a half for
// a character that cannot be read; here it stays three bytes, until the other half comes.

const (
	escape   = len(`\uD83C`)
	halfSize = 3
)

// withHalves decodes a valid JSON string and keeps halves.
func withHalves(raw []byte) string {
	text := make([]byte, 0, len(raw))
	for rest := raw[1 : len(raw)-1]; len(rest) > 0; {
		if rest[0] != '\\' {
			text, rest = append(text, rest[0]), rest[1:]
			continue
		}
		if rest[1] != 'u' {
			text, rest = append(text, unescaped(rest[:2])...), rest[2:]
			continue
		}
		if half := halfOf(rest); half != 0 && (len(rest) < 2*escape || utf16.DecodeRune(half, halfOf(rest[escape:])) == '\uFFFD') {
			text, rest = append(text, 0xED, 0x80|byte(half>>6&0x3F), 0x80|byte(half&0x3F)), rest[escape:]
			continue
		} else if half != 0 {
			text, rest = append(text, unescaped(rest[:2*escape])...), rest[2*escape:]
			continue
		}
		text, rest = append(text, unescaped(rest[:escape])...), rest[escape:]
	}
	return string(text)
}

func unescaped(escapes []byte) string {
	var text string
	_ = json.Unmarshal([]byte(`"`+string(escapes)+`"`), &text) // it is a part of a valid string
	return text
}

// halfOf is the half that an escape stands for, 0 = it is none.
func halfOf(escaped []byte) rune {
	if escaped[0] != '\\' || escaped[1] != 'u' {
		return 0
	}
	code, _ := strconv.ParseUint(string(escaped[2:escape]), 16, 16) // it is valid
	if half := rune(code); utf16.IsSurrogate(half) {
		return half
	}
	return 0
}

// joinHalves puts halves together that have met.
func joinHalves(text string) string {
	if !strings.Contains(text, "\xED") {
		return text
	}
	var whole strings.Builder
	for i := 0; i < len(text); i++ {
		first, second := half(text[i:]), half(text[min(i+halfSize, len(text)):])
		if joined := utf16.DecodeRune(first, second); first != 0 && second != 0 && joined != '\uFFFD' {
			whole.WriteRune(joined)
			i += 2*halfSize - 1
			continue
		}
		whole.WriteByte(text[i])
	}
	return whole.String()
}

// waiting parts a text from a half at its end, which waits for the other.
func waiting(text string) (whole, rest string) {
	if at := len(text) - halfSize; at >= 0 && half(text[at:]) != 0 && half(text[at:]) < 0xDC00 {
		return text[:at], text[at:]
	}
	return text, ""
}

// half is the half that a text begins with, 0 = with none.
func half(text string) rune {
	if len(text) < halfSize || text[0] != 0xED || text[1] < 0xA0 || text[1] > 0xBF || text[2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F)
}
