package inference

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"parley/actors/core/definition"
	"parley/actors/inference/wave"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// Sound is speech that was made.
type Sound struct {
	ContentType string
	Audio       []byte
}

// defaultFormat and defaultVoice are of speech that asks for none.
const (
	defaultFormat = "mp3"
	defaultVoice  = "alloy"
)

// soundTypes are the formats of speech and their types (document 3, 11.1).
//
//nolint:gochecknoglobals // a constant table
var soundTypes = map[string]string{
	"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/L16",
}

// Speak makes speech of a text (document 3, 11.1). The error is as Chat's.
func (c *Caller) Speak(ctx context.Context, call *Call) (*Sound, error) {
	leave, t, refused := c.openSound(call, ServiceSpeech, "tts", "text-to-speech")
	if refused != nil {
		return nil, refused
	}
	defer leave()
	t.sounds = sound{characters: int64(utf8.RuneCountInString(call.Body.Text("input"))), known: true}
	made := &Sound{}
	_, err := c.whole(ctx, call, t, func(ctx context.Context, call *Call, t *target, used *consumed) ([]byte, error) {
		return nil, c.speak(ctx, call, t, used, made)
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (c *Caller) speak(ctx context.Context, call *Call, t *target, used *consumed, made *Sound) error {
	text := call.Body.Text("input")
	format := call.Body.Text("response_format")
	if soundTypes[format] == "" {
		format = defaultFormat
	}
	switch {
	case t.model.GetProvider() == agentpb.Provider_SCRIPTED:
		if failed := standInSpeech(ctx, text, format, made); failed != nil {
			return failed
		}
		used.sound = t.sounds
		used.sound.spoken = wave.At(len(text)).Milliseconds()
		return nil
	case !t.relayed():
		return invalid("model", "the provider of this model does not speak")
	}
	address, err := model.OpenAIURL(t.model, "/audio/speech")
	if err != nil {
		return badAddress(err)
	}
	body := speechBody(call, t, text, format)
	err = c.attempts(ctx, t, provider.Speech, func(ctx context.Context) error { return c.fetchSound(ctx, t, address, body, made) })
	if err != nil {
		return soundError(err, "speech")
	}
	if made.ContentType == "" {
		made.ContentType = soundTypes[format]
	}
	used.sound = t.sounds
	used.sound.spoken = spokenMillis(made.Audio, format, &used.sound, t)
	return nil
}

// speechBody is the request to a provider.
func speechBody(call *Call, t *target, text, format string) []byte {
	dst := rawjson.AppendString([]byte(`{"model":`), t.model.GetName())
	dst = rawjson.AppendString(append(dst, `,"input":`...), text)
	dst = rawjson.AppendString(append(dst, `,"voice":`...), cmp.Or(call.Body.Text("voice"), defaultVoice))
	dst = rawjson.AppendString(append(dst, `,"response_format":`...), format)
	for _, name := range []string{"speed", "instructions"} {
		if value := call.Body.Get(name); value != nil {
			dst = append(append(append(append(dst, `,"`...), name...), `":`...), value...)
		}
	}
	return append(dst, '}')
}

// fetchSound makes one exchange. What a provider answers in place of sound is what went wrong.
func (c *Caller) fetchSound(ctx context.Context, t *target, address *url.URL, body []byte, made *Sound) error {
	request, err := post(ctx, t, address, body)
	if err != nil {
		return err
	}
	exchange := c.exchange(t)
	response, err := exchange.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	answer, err := exchange.ReadAll(ctx, response, c.config.MaxAnswerBytes)
	if err != nil {
		return err
	}
	media, kind := soundType(response.Header)
	switch {
	case len(answer) == 0:
		return unreadable()
	case kind == "" && json.Valid(answer):
		if _, failed := t.readAnswer(answer); failed != nil {
			return failed
		}
		return unreadable()
	case isText(media) && utf8.Valid(answer): // a page of somebody on the way
		return unreadable()
	}
	made.Audio, made.ContentType = answer, kind
	return nil
}

// isText says whether a type is that of something to read.
func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml")
}

// soundType is the type that a provider gives its answer, and once more, as sent, where it is that of sound: what is none is not shown as
// what it says it is.
func soundType(header http.Header) (media, sound string) {
	sent := header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(sent)
	if err != nil || !strings.HasPrefix(media, "audio/") || len(sent) > 128 {
		return media, ""
	}
	return media, sent
}

// spokenMillis is how long speech is; estimated where it does not say, which counts where the model's price does.
func spokenMillis(audio []byte, format string, of *sound, t *target) int64 {
	const pcmRate = 48_000 // bytes a second, as the providers make it
	if format == "pcm" {
		return int64(len(audio)) * 1000 / pcmRate
	}
	length := lengthOf(&Recording{Audio: bytes.NewReader(audio), Size: int64(len(audio))})
	if price, err := definition.PriceOfSound(t.record.GetPricing()); err == nil && price != nil && price.OutputPerKiloSecond > 0 {
		of.known = length.known
	}
	return length.heard
}

// standInSpeech is that of the scripted provider: tones that its transcription understands (package wave). It makes wav and pcm;
// who asks for another format gets wav, and is told so.
func standInSpeech(ctx context.Context, text, format string, made *Sound) error {
	const most = 4096 // characters, as the original has it
	if utf8.RuneCountInString(text) > most {
		return invalid("input", "`input` must have at most 4096 characters for the scripted provider")
	}
	if err := stranger.From(ctx).Take(int64(2 * wave.Size(text))); err != nil {
		return crowded(err)
	}
	samples := wave.Speak(text)
	made.Audio, made.ContentType = samples, "audio/L16;rate=8000;channels=1"
	if format != "pcm" {
		made.Audio, made.ContentType = append(wave.Head(wave.Rate, len(samples)), samples...), soundTypes["wav"]
	}
	return nil
}
