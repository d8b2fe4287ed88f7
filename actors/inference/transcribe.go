package inference

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"mime"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// Recording is what a transcription is asked of, and how.
type Recording struct {
	// Audio is read anew for each attempt, and perhaps a little longer than the call lasts: reading it must then fail.
	Audio                 io.ReaderAt
	Size                  int64
	FileName, ContentType string

	Translate         bool // into English
	Language, Prompt  string
	Format            string // json, text, srt, verbose_json or vtt; empty = json
	Temperature       string // a number
	ByWord, BySegment bool
}

// Formats of transcriptions.
const (
	formatJSON    = "json"
	formatVerbose = "verbose_json"
)

// Transcribe writes down what is said in a recording, and returns the JSON of the answer (document 3, 11.2). The error is as Chat's.
func (c *Caller) Transcribe(ctx context.Context, call *Call, recording *Recording) ([]byte, error) {
	service := ServiceTranscriptions
	if recording.Translate {
		service = ServiceTranslations
	}
	leave, t, refused := c.openSound(call, service, "stt", "speech-to-text")
	if refused != nil {
		return nil, refused
	}
	defer leave()
	t.sounds = lengthOf(recording)
	return c.whole(ctx, call, t, func(ctx context.Context, call *Call, t *target, used *consumed) ([]byte, error) {
		heard, err := c.hear(ctx, recording, t)
		if err != nil {
			return nil, err
		}
		used.Usage, used.sound = heard.tokens, t.sounds
		if heard.millis > 0 {
			used.sound = sound{heard: heard.millis, known: true}
		}
		return heard.append(call, used), nil
	})
}

func (c *Caller) hear(ctx context.Context, recording *Recording, t *target) (*transcript, error) {
	switch {
	case t.model.GetProvider() == agentpb.Provider_SCRIPTED:
		return standInTranscript(recording)
	case !t.relayed():
		return nil, invalid("model", "the provider of this model does not transcribe")
	}
	path, deed := "/audio/transcriptions", "transcription"
	if recording.Translate {
		path, deed = "/audio/translations", "translation"
	}
	address, err := model.OpenAIURL(t.model, path)
	if err != nil {
		return nil, badAddress(err)
	}
	form := newForm(recording, t.model.GetName())
	var heard *transcript
	err = c.attempts(ctx, t, provider.Hearing, func(ctx context.Context) error {
		answer, isJSON, failed := c.fetchTranscript(ctx, t, address, form)
		if failed != nil {
			return failed
		}
		heard, failed = readTranscript(t, recording, answer, isJSON)
		return failed
	})
	if err != nil {
		return nil, soundError(err, deed)
	}
	return heard, nil
}

// fetchTranscript makes one exchange. The recording is sent as it is read.
func (c *Caller) fetchTranscript(ctx context.Context, t *target, address *url.URL, form *form) (answer []byte, isJSON bool, failed error) {
	request, err := post(ctx, t, address, nil)
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", form.contentType)
	request.Body, request.ContentLength = form.open(), form.size
	request.GetBody = func() (io.ReadCloser, error) { return form.open(), nil }
	exchange := c.exchange(t)
	response, err := exchange.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	answer, err = exchange.ReadAll(ctx, response, c.config.MaxAnswerBytes)
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return answer, media == "application/json", err
}

// form is a multipart form around a recording, which can be sent several times.
type form struct {
	contentType string
	head, tail  []byte
	recording   *Recording
	size        int64
}

// newForm has the file last: whoever reads it as it comes knows by then what is wanted.
func newForm(recording *Recording, modelID string) *form {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	boundary := "parley-" + hex.EncodeToString(random[:])
	var head bytes.Buffer
	field := func(name, value string) {
		if value != "" {
			head.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n")
		}
	}
	field("model", modelID)
	field("prompt", recording.Prompt)
	field("response_format", recording.Format)
	field("temperature", recording.Temperature)
	if !recording.Translate {
		field("language", recording.Language)
		for _, one := range []struct {
			name  string
			asked bool
		}{{"word", recording.ByWord}, {"segment", recording.BySegment}} {
			if one.asked {
				field("timestamp_granularities[]", one.name)
			}
		}
	}
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "_", "\n", "_").Replace(recording.FileName)
	head.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\nContent-Type: " +
		contentTypeOf(recording) + "\r\n\r\n")
	made := &form{
		contentType: "multipart/form-data; boundary=" + boundary, head: head.Bytes(), tail: []byte("\r\n--" + boundary + "--\r\n"),
		recording: recording,
	}
	made.size = int64(len(made.head)) + recording.Size + int64(len(made.tail))
	return made
}

// contentTypeOf is the type of a recording, which must not end its line.
func contentTypeOf(recording *Recording) string {
	media, _, err := mime.ParseMediaType(recording.ContentType)
	if err != nil || textproto.TrimString(media) == "" || strings.ContainsAny(media, "\r\n") {
		return "application/octet-stream"
	}
	return media
}

func (f *form) open() io.ReadCloser {
	return io.NopCloser(io.MultiReader(
		bytes.NewReader(f.head), io.NewSectionReader(f.recording.Audio, 0, f.recording.Size), bytes.NewReader(f.tail),
	))
}

// readTranscript reads a provider's answer. Some answer with JSON whatever format they were asked for.
func readTranscript(t *target, recording *Recording, answer []byte, isJSON bool) (*transcript, error) {
	asked := recording.Format == "" || recording.Format == formatJSON || recording.Format == formatVerbose
	if !asked && !isJSON {
		return &transcript{text: string(bytes.ToValidUTF8(answer, []byte("\uFFFD")))}, nil
	}
	fields, err := t.readAnswer(answer)
	if err != nil {
		return nil, err
	}
	raw := fields.Get("text")
	if raw == nil || raw[0] != '"' {
		return nil, unreadable()
	}
	heard := &transcript{text: fields.Text("text"), language: fields.Text("language")}
	seconds := decimal(fields.Get("duration"))
	if said, failed := rawjson.Object(fields.Get("usage")); failed == nil {
		heard.tokens.Take(fields.Get("usage"))
		if seconds == 0 {
			seconds = decimal(said.Get("seconds"))
		}
	}
	if heard.millis = believable(seconds, recording.Size); heard.millis > 0 {
		heard.duration = strconv.FormatFloat(seconds, 'f', -1, 64)
	}
	if heard.segments, err = renamed(fields.Get("segments"), segmentFields); err == nil {
		heard.words, err = renamed(fields.Get("words"), wordFields)
	}
	return heard, err
}
