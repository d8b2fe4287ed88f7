package audio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/httpedge/gateway"
	"parley/proto/failurepb"
)

// Bounds of what is in a body beside the recording.
const (
	maxFields = 64
	maxText   = 64 << 10 // of a field
	maxBeside = 1 << 20  // in all: names and heads of parts, and what is skipped, among it
)

// received is a request for a transcription, as far as it has come.
type received struct {
	spool     Spool
	most      int64 // bytes of a recording
	translate bool

	kept                  Spooled // nil = no recording has come
	size                  int64
	fileName, contentType string
	inJSON                bool
	texts                 map[string]string // fields by name, the first of each in a form, the last in JSON
	granularities         []string
	count                 int // fields in all
}

// close forgets the recording.
func (r *received) close() {
	if r.kept != nil {
		_ = r.kept.Close() // it has no name: closing it takes it away, whatever is said of it
	}
}

// read reads a body to its end.
func (r *received) read(contentType string, body io.Reader) error {
	media, params, err := mime.ParseMediaType(cmp.Or(contentType, "application/json")) // as on other routes
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		media = ""
	}
	r.texts = map[string]string{}
	from := &meter{from: body, left: maxBeside}
	switch media {
	case "multipart/form-data":
		if params["boundary"] == "" {
			return failure.New(failurepb.Code_VALIDATION, failure.FormWithoutBoundary)
		}
		return r.readForm(from, params["boundary"])
	case "application/json":
		r.inJSON = true
		return r.readJSON(from)
	}
	return failure.New(failurepb.Code_VALIDATION, failure.SoundBodyType)
}

// keep takes the recording.
func (r *received) keep(from io.Reader) error {
	if r.kept != nil {
		return failure.New(failurepb.Code_VALIDATION, failure.FormWithFiles)
	}
	kept, err := r.spool.Create()
	if err != nil {
		return err
	}
	r.kept = kept
	if r.size, err = io.Copy(kept, io.LimitReader(from, r.most+1)); err != nil {
		return err
	}
	switch {
	case r.size > r.most:
		return tooLarge(r.most)
	case r.size == 0 && !r.inJSON:
		return invalid("file", failure.SoundEmpty)
	}
	return nil
}

// text takes a field.
func (r *received) text(name, value string) error {
	if r.count++; r.count > maxFields {
		return failure.New(failurepb.Code_VALIDATION, failure.MalformedForm)
	}
	if _, known := r.texts[name]; known && !r.inJSON {
		return nil
	}
	r.texts[name] = value
	return nil
}

// request is what was asked for, once all has come.
func (r *received) request(ctx context.Context) (*gateway.Call, *Recording, error) {
	if refused := r.check(); refused != nil {
		return nil, nil, refused
	}
	recording := &Recording{
		Audio: r.kept, Size: r.size, FileName: r.name(), ContentType: r.contentType, Translate: r.translate,
		Prompt: r.texts["prompt"], Format: r.texts["response_format"], Temperature: r.texts["temperature"],
	}
	if !r.translate {
		recording.Language = r.texts["language"]
		recording.ByWord, recording.BySegment = slices.Contains(r.granularities, "word"), slices.Contains(r.granularities, "segment")
	}
	return gateway.NewCall(ctx, rawjson.Fields{
		{Name: "model", Value: rawjson.AppendString(nil, r.texts["model"])},
		{Name: "request_id", Value: rawjson.AppendString(nil, r.texts["request_id"])},
	}), recording, nil
}

func (r *received) check() *failure.Failure {
	const formats = "json, text, srt, verbose_json, vtt"
	format, temperature := r.texts["response_format"], r.texts["temperature"]
	switch {
	case r.texts["model"] == "":
		return invalid("model", failure.SoundFieldRequired)
	case r.inJSON && r.size == 0:
		return invalid("audio.data", failure.SoundNotBase64)
	case r.kept == nil:
		return invalid("file", failure.SoundFieldRequired)
	case r.texts["stream"] == "true":
		return invalid("stream", failure.SoundNotStreamed)
	case format != "" && !slices.Contains(strings.Split(formats, ", "), format):
		return invalid("response_format", failure.NotOneOf).Param("name", "`response_format`").Param("choices", formats)
	}
	if number, err := strconv.ParseFloat(temperature, 64); temperature != "" && (err != nil || math.IsNaN(number) || math.IsInf(number, 0)) {
		return wrongType("temperature", "a number")
	}
	return nil
}

// name is the name of the recording: without one, audio with the ending of its type.
func (r *received) name() string {
	if name, refused := filing.CleanName(r.fileName); refused == nil {
		return name
	}
	return "audio." + cmp.Or(endings[filing.MediaType(r.contentType)], "wav")
}

//nolint:gochecknoglobals // a constant table
var endings = map[string]string{
	"audio/aac": "aac", "audio/flac": "flac", "audio/m4a": "m4a", "audio/mp3": "mp3", "audio/mp4": "m4a", "audio/mpeg": "mp3",
	"audio/mpga": "mpga", "audio/ogg": "ogg", "audio/opus": "opus", "audio/wave": "wav", "audio/webm": "webm", "audio/x-flac": "flac",
	"audio/x-m4a": "m4a", "audio/x-wav": "wav", "video/mp4": "mp4", "video/mpeg": "mpeg", "video/webm": "webm",
}

// meter bounds what is read beside the recording.
type meter struct {
	from io.Reader
	left int64
	free bool // the recording is being read, which has bounds of its own
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, failure.New(failurepb.Code_TOO_LARGE, failure.BodyTooLarge).Param("most", maxBeside)
	}
	n, err := m.from.Read(p)
	if !m.free {
		m.left -= int64(n)
	}
	return n, err
}

func tooLarge(most int64) *failure.Failure {
	return failure.New(failurepb.Code_TOO_LARGE, failure.BodyTooLarge).Param("most", most)
}

// otherwise is a refusal, unless what went wrong is one, or the connection broke.
func otherwise(err error, refusal *failure.Failure) error {
	var refused *failure.Failure
	var problem *endpoint.Problem
	if errors.As(err, &refused) || errors.As(err, &problem) {
		return err
	}
	return refusal
}

// scalar is the text of a JSON value that is a text or a number; false = it is neither.
func scalar(raw []byte) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String(), true
	}
	return "", false
}
