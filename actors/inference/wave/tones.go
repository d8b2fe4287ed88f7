package wave

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"time"
	"unicode/utf8"
)

// Speech is a text as tones: half a byte is one of sixteen, for five milliseconds. All of them fit into that time a whole number of
// times, so that none is heard in another. Before the text come its length and its checksum.
const (
	// Rate is samples a second of speech: mono, 16 bits, the lower byte first.
	Rate = 8_000

	symbol    = Rate / 200 // samples of a tone
	tones     = 16
	lowest    = 3 // periods of the deepest tone; the others have one more each
	loudness  = 12_000
	lead      = 6 // bytes before the text
	perSymbol = 5 * time.Millisecond
	perByte   = 2 * perSymbol

	// MaxText is the longest text that is heard, in bytes.
	MaxText = 1<<16 - 1
)

// ErrNoSpeech is a recording in which no speech of this kind is heard.
var ErrNoSpeech = errors.New("the recording holds no speech that was made here")

// At is when the byte of a text is heard in its speech.
func At(byteOfText int) time.Duration { return time.Duration(lead+byteOfText) * perByte }

// Size is how many bytes of samples the speech of a text takes.
func Size(text string) int { return (lead + len(text)) * 2 * symbol * 2 }

// Speak returns the samples of a text's speech. The text has at most MaxText bytes.
func Speak(text string) []byte {
	table := wavesOfTones()
	samples := make([]byte, 0, Size(text))
	say := func(c byte) {
		for _, tone := range []byte{c >> 4, c & 15} {
			for _, value := range table[tone].sine {
				samples = binary.LittleEndian.AppendUint16(samples, uint16(int16(math.Round(value*loudness)))) //nolint:gosec // that loud at most
			}
		}
	}
	var head [lead]byte
	binary.BigEndian.PutUint16(head[:], uint16(len(text))) //nolint:gosec // MaxText at most
	binary.BigEndian.PutUint32(head[2:], crc32.ChecksumIEEE([]byte(text)))
	for _, c := range head {
		say(c)
	}
	for i := range len(text) {
		say(text[i])
	}
	return samples
}

// Hear returns the text of speech. What follows on it is not listened to.
func Hear(samples io.Reader) (string, error) {
	ear := &ear{samples: samples, table: wavesOfTones()}
	var head [lead]byte
	for i := range head {
		head[i] = ear.next()
	}
	length := binary.BigEndian.Uint16(head[:])
	if ear.failed {
		return "", ErrNoSpeech
	}
	text := make([]byte, 0, length)
	for range length {
		text = append(text, ear.next())
	}
	if ear.failed || crc32.ChecksumIEEE(text) != binary.BigEndian.Uint32(head[2:]) || !utf8.Valid(text) {
		return "", ErrNoSpeech
	}
	return string(text), nil
}

// HearFile returns the text of speech in a file: RIFF/WAVE, or nothing but samples.
func HearFile(file io.ReaderAt, size int64) (text string, millis int64, err error) {
	found, ok := Read(file, size)
	switch {
	case !ok:
		found = Recording{Format: PCM, Channels: 1, Bits: 16, Rate: Rate, Bytes: size, bytesPerSecond: 2 * Rate}
	case found.Format != PCM || found.Channels != 1 || found.Bits != 16 || found.Rate != Rate:
		return "", 0, ErrNoSpeech
	}
	text, err = Hear(io.NewSectionReader(file, found.At, found.Bytes))
	return text, found.Millis(), err
}

// ear listens to tones.
type ear struct {
	samples io.Reader
	table   *[tones]wave
	buffer  [2 * symbol]byte
	failed  bool
}

func (e *ear) next() byte { return e.tone()<<4 | e.tone() }

// tone is the next tone, which must be louder than what else is heard by far.
func (e *ear) tone() byte {
	const apart = 4
	if e.failed {
		return 0
	}
	if _, err := io.ReadFull(e.samples, e.buffer[:]); err != nil {
		e.failed = true
		return 0
	}
	var loudest, rest float64
	found := byte(0)
	for tone := range byte(tones) {
		var sine, cosine float64
		for i := range symbol {
			value := float64(int16(binary.LittleEndian.Uint16(e.buffer[2*i:]))) //nolint:gosec // it is what it was
			sine += value * e.table[tone].sine[i]
			cosine += value * e.table[tone].cosine[i]
		}
		energy := sine*sine + cosine*cosine
		if energy > loudest {
			loudest, rest, found = energy, max(rest, loudest), tone
		} else {
			rest = max(rest, energy)
		}
	}
	const audible = 1e5 // of one that is some hundred times softer than it is spoken
	e.failed = loudest < audible || loudest < apart*rest
	return found
}

type wave struct{ sine, cosine [symbol]float64 }

func wavesOfTones() *[tones]wave {
	table := new([tones]wave)
	for tone := range table {
		for i := range symbol {
			angle := 2 * math.Pi * float64((lowest+tone)*i) / symbol
			table[tone].sine[i], table[tone].cosine[i] = math.Sin(angle), math.Cos(angle)
		}
	}
	return table
}
