package inference

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"parley/actors/dialect/chat"
	"parley/actors/inference/wave"
	"parley/actors/machine/rawjson"
)

// transcript is what was heard.
type transcript struct {
	text, language  string
	duration        string // in seconds, a number; empty = not told
	millis          int64  // 0 = not told, or not to be believed
	segments, words []byte // JSON arrays; nil = none
	tokens          chat.Usage
}

// append renders the answer (document 3, 11.2).
func (s *transcript) append(call *Call, used *consumed) []byte {
	dst := make([]byte, 0, len(s.text)+len(s.segments)+len(s.words)+256)
	dst = rawjson.AppendString(append(dst, `{"text":`...), s.text)
	if s.language != "" {
		dst = rawjson.AppendString(append(dst, `,"language":`...), s.language)
	}
	if s.duration != "" {
		dst = append(append(dst, `,"duration":`...), s.duration...)
	}
	if s.segments != nil {
		dst = append(append(dst, `,"segments":`...), s.segments...)
	}
	if s.words != nil {
		dst = append(append(dst, `,"words":`...), s.words...)
	}
	dst = append(dst, `,"usage":{"inputSeconds":`...)
	dst = appendSeconds(dst, used.sound.heard)
	if used.Known {
		for _, one := range []struct {
			name  string
			count int64
		}{{"inputTokens", used.Input}, {"outputTokens", used.Output}, {"totalTokens", max(used.Total, used.Input+used.Output)}} {
			dst = strconv.AppendInt(append(append(append(dst, `,"`...), one.name...), `":`...), one.count, 10)
		}
	}
	return append(rawjson.AppendString(append(dst, `},"request_id":`...), call.RequestID), '}')
}

func appendSeconds(dst []byte, millis int64) []byte {
	return strconv.AppendFloat(dst, float64(millis)/1000, 'f', -1, 64)
}

// pair is a field of a provider and what it is called here; text says that it is a text, else it is a number.
type pair struct {
	from, to string
	text     bool
}

// Fields of segments and words.
//
//nolint:gochecknoglobals // constant tables
var (
	segmentFields = []pair{
		{"id", "id", false},
		{"start", "start", false},
		{"end", "end", false},
		{"text", "text", true},
		{"avg_logprob", "avgLogprob", false},
		{"compression_ratio", "compressionRatio", false},
		{"no_speech_prob", "noSpeechProb", false},
	}
	wordFields = []pair{{"start", "start", false}, {"end", "end", false}, {"word", "word", true}}
)

// maxPieces bounds the segments, and the words, of an answer.
const maxPieces = 200_000

// renamed renders a provider's list with our names of its fields; nil = it has none.
func renamed(raw []byte, fields []pair) ([]byte, error) {
	if raw == nil {
		return nil, nil
	}
	items, err := rawjson.Array(raw, maxPieces)
	if err != nil {
		return nil, unreadable()
	}
	dst := append(make([]byte, 0, len(raw)), '[')
	for i, item := range items {
		read, err := rawjson.Object(item)
		if err != nil {
			return nil, unreadable()
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		begun := false
		for _, field := range fields {
			value := read.Get(field.from)
			if value == nil || (value[0] == '"') != field.text || !field.text && !isNumber(value) {
				continue // a part that is not told, or is none
			}
			if begun {
				dst = append(dst, ',')
			}
			begun = true
			dst = append(append(append(append(dst, '"'), field.to...), `":`...), value...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// decimal is a number, or one that is written as a text, as some do; 0 = it is none.
func decimal(raw []byte) float64 {
	text := string(raw)
	if len(raw) > 1 && raw[0] == '"' {
		text = rawjson.Text(raw).String()
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}

// standInTranscript is that of the scripted provider: it understands what its speech has said, and knows no languages. The times are
// those of the tones.
func standInTranscript(recording *Recording) (*transcript, error) {
	text, millis, err := wave.HearFile(recording.Audio, recording.Size)
	switch {
	case errors.Is(err, wave.ErrNoSpeech):
		return nil, invalid("file", "the scripted provider understands only the speech that it has made itself, as wav or pcm")
	case err != nil:
		return nil, err
	}
	heard := &transcript{text: text, millis: millis}
	sentences := pieces(text, func(r, next rune) bool { return strings.ContainsRune(".!?", r) && unicode.IsSpace(next) })
	switch recording.Format {
	case "srt", "vtt":
		heard.text = subtitles(sentences, recording.Format)
	case "text":
		heard.text = text + "\n"
	case formatVerbose:
		heard.language = recording.Language
		heard.duration = string(appendSeconds(nil, millis))
		if recording.ByWord && !recording.Translate {
			heard.words, _ = json.Marshal(wordsOf(text)) // texts and numbers always encode
		}
		if recording.BySegment || !recording.ByWord || recording.Translate {
			heard.segments, _ = json.Marshal(sentences) // as above
		}
	}
	return heard, nil
}

// segment is a sentence of the scripted provider's, with its times in seconds.
type segment struct {
	ID               int     `json:"id"`
	Start            float64 `json:"start"`
	End              float64 `json:"end"`
	Text             string  `json:"text"`
	AvgLogprob       float64 `json:"avgLogprob"`
	CompressionRatio float64 `json:"compressionRatio"`
	NoSpeechProb     float64 `json:"noSpeechProb"`
}

type spokenWord struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Word  string  `json:"word"`
}

// pieces cuts a text behind the characters that end one. What is only space belongs to none.
func pieces(text string, ends func(r, next rune) bool) []segment {
	found := []segment{}
	from := 0
	cut := func(to int) {
		piece := text[from:to]
		trimmed := strings.TrimSpace(piece)
		if trimmed != "" {
			start := from + strings.Index(piece, trimmed)
			found = append(found, segment{
				ID: len(found), Start: wave.At(start).Seconds(), End: wave.At(start + len(trimmed)).Seconds(), Text: trimmed, CompressionRatio: 1,
			})
		}
		from = to
	}
	last := rune(0)
	for i, r := range text {
		if i > 0 && ends(last, r) {
			cut(i)
		}
		last = r
	}
	cut(len(text))
	return found
}

func wordsOf(text string) []spokenWord {
	words := []spokenWord{}
	for _, piece := range pieces(text, func(_, next rune) bool { return unicode.IsSpace(next) }) {
		words = append(words, spokenWord{piece.Start, piece.End, piece.Text})
	}
	return words
}

// subtitles renders sentences as srt or vtt.
func subtitles(sentences []segment, format string) string {
	var b strings.Builder
	comma := ","
	if format == "vtt" {
		comma = "."
		b.WriteString("WEBVTT\n\n")
	}
	for i, sentence := range sentences {
		if format == "srt" {
			b.WriteString(strconv.Itoa(i+1) + "\n")
		}
		b.WriteString(clock(sentence.Start, comma) + " --> " + clock(sentence.End, comma) + "\n" + strings.Join(strings.Fields(sentence.Text), " ") + "\n\n")
	}
	return b.String()
}

// clock is a time as subtitles have it.
func clock(seconds float64, comma string) string {
	at := time.Duration(math.Round(seconds*1000)) * time.Millisecond
	two := func(n time.Duration) string { return strconv.Itoa(int(n/10)) + strconv.Itoa(int(n%10)) }
	millis := strconv.Itoa(int(1000 + at%time.Second/time.Millisecond))[1:]
	return two(at/time.Hour) + ":" + two(at/time.Minute%60) + ":" + two(at/time.Second%60) + comma + millis
}
