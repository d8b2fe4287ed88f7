package wave_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/inference/wave"
)

func recorded(text string) []byte {
	samples := wave.Speak(text)
	return append(wave.Head(wave.Rate, len(samples)), samples...)
}

// TestSpeechIsHeard: every byte, texts of any script, soft and with noise behind it.
func TestSpeechIsHeard(t *testing.T) {
	every := strings.Builder{}
	for c := range 256 {
		every.WriteRune(rune(c))
	}
	for _, text := range []string{"", "a", "Hello, world. How are you?", "Günaydın, İstanbul! 早上好 🙂", every.String(), strings.Repeat("long ", 800)} {
		file := recorded(text)
		heard, millis, err := wave.HearFile(bytes.NewReader(file), int64(len(file)))
		require.NoError(t, err)
		require.Equal(t, text, heard)
		require.Equal(t, wave.At(len(text)).Milliseconds(), millis, "it ends with its text")
		require.Len(t, file, 44+wave.Size(text))

		raw := file[44:]
		heard, _, err = wave.HearFile(bytes.NewReader(raw), int64(len(raw)))
		require.NoError(t, err)
		require.Equal(t, text, heard, "without a head")

		soft := bytes.Clone(raw)
		for i := 0; i+1 < len(soft); i += 2 {
			value := int16(binary.LittleEndian.Uint16(soft[i:]))
			binary.LittleEndian.PutUint16(soft[i:], uint16(value/20+int16(i%7)))
		}
		heard, _, err = wave.HearFile(bytes.NewReader(soft), int64(len(soft)))
		require.NoError(t, err)
		require.Equal(t, text, heard, "softer")
	}
	require.Equal(t, 60*time.Millisecond, wave.At(0))
}

// TestWhatIsNoSpeech is not taken for any.
func TestWhatIsNoSpeech(t *testing.T) {
	whole := recorded("Hello")
	stereo := bytes.Clone(whole)
	stereo[22] = 2
	changed := bytes.Clone(whole)
	copy(changed[44+160*8:], changed[44+160*7:44+160*8])
	for name, file := range map[string][]byte{
		"nothing": nil, "silence": make([]byte, 64_000), "text": []byte(strings.Repeat("not a sound ", 4000)),
		"cut": whole[:len(whole)-100], "stereo": stereo, "changed": changed, "only_a_head": whole[:44],
	} {
		_, _, err := wave.HearFile(bytes.NewReader(file), int64(len(file)))
		require.ErrorIs(t, err, wave.ErrNoSpeech, name)
	}
}

// TestLengthOfRecordings: as their bytes bear it out, whatever their heads say.
func TestLengthOfRecordings(t *testing.T) {
	head := func(change func(head []byte)) []byte {
		file := append(wave.Head(8000, 16_000), make([]byte, 16_000)...)
		change(file)
		return file
	}
	word := binary.LittleEndian
	for _, c := range []struct {
		name   string
		file   []byte
		millis int64
		known  bool
	}{
		{"a_second", head(func([]byte) {}), 1000, true},
		{"longer_than_it_is", head(func(h []byte) { word.PutUint32(h[40:], 0xffff_ffff) }), 1000, true},
		{"no_length", head(func(h []byte) { word.PutUint32(h[40:], 0) }), 1000, true},
		{"a_wrong_rate_of_bytes", head(func(h []byte) { word.PutUint32(h[28:], 1) }), 1000, true},
		{"law", head(func(h []byte) { word.PutUint16(h[20:], 7); word.PutUint32(h[28:], 8000) }), 2000, true},
		{"law_at_an_absurd_rate", head(func(h []byte) { word.PutUint16(h[20:], 7); word.PutUint32(h[28:], 1) }), 0, false},
		{"no_channels", head(func(h []byte) { word.PutUint16(h[22:], 0) }), 0, false},
		{"no_rate", head(func(h []byte) { word.PutUint32(h[24:], 0) }), 0, false},
		{"an_absurd_rate", head(func(h []byte) { word.PutUint32(h[24:], 4_000_000_000) }), 0, false},
		{"a_chunk_without_end", head(func(h []byte) { word.PutUint32(h[16:], 0xffff_fff0) }), 0, false},
		{"no_data", head(func(h []byte) { copy(h[36:], "junk") }), 0, false},
		{"data_first", append([]byte("RIFF\x00\x00\x00\x00WAVEdata\x04\x00\x00\x00abcd"), make([]byte, 40)...), 0, false},
		{"short", []byte("RIFF"), 0, false},
		{"mp3", []byte("ID3\x03\x00\x00\x00\x00\x00\x00 and more of it"), 0, false},
		{"empty_chunks", append([]byte("RIFF\x00\x00\x00\x00WAVE"), bytes.Repeat([]byte("none\x00\x00\x00\x00"), 1000)...), 0, false},
	} {
		found, known := wave.Read(bytes.NewReader(c.file), int64(len(c.file)))
		require.Equal(t, c.known, known, c.name)
		if known {
			require.Equal(t, c.millis, found.Millis(), c.name)
		}
	}
}

// FuzzRead: no head makes it fall, or last longer than its bytes can.
func FuzzRead(f *testing.F) {
	f.Add(recorded("Hi"))
	f.Add([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		found, known := wave.Read(bytes.NewReader(file), int64(len(file)))
		if known && (found.Millis() < 0 || found.Millis() > int64(len(file))*10+1) {
			t.Fatal(found)
		}
		_, _, _ = wave.HearFile(bytes.NewReader(file), int64(len(file)))
	})
}
